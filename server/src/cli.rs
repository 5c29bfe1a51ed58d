pub mod demo_tools;

mod chain;

//! A narrow door to the tools: the demo server, and list, show and call by hand.

mod cli;
use actbook::config::Config;
use actbook::tools::{Call, Tools};
use std::path::PathBuf;
use std::time::Duration;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["demo-tools", "--folder", folder] => cli::demo_tools::serve(PathBuf::from(folder)).await,
        ["--config", config, "tools", rest @ ..] => tools(config, rest).await,
        _ => anyhow::bail!(
            "usage: demo-tools --folder DIR | --config FILE tools list | show TOOL | call TOOL JSON [TIMEOUT_MS]"
        ),
    }
}

async fn tools(config: &str, words: &[&str]) -> anyhow::Result<()> {
    let tools = Tools::new(&Config::load(Some(config.as_ref()))?);
    match words {
        ["list"] => {
            for server in tools.list().await {
                anstream::println!("{} {:?}", server.server, server.error);
                for tool in server.tools {
                    anstream::println!("  {} {:?} {}", tool.name, tool.annotations, tool.digest);
                }
            }
        }
        ["show", tool] => {
            anstream::println!("{}", serde_json::to_string_pretty(&tools.describe(tool).await?)?)
        }
        ["call", tool, arguments, rest @ ..] => {
            let timeout = rest.first().map_or(Ok(10_000), |ms| ms.parse())?;
            let call = Call {
                tool: (*tool).into(),
                arguments: serde_json::from_str(arguments)?,
                key: "k1".into(),
                timeout: Duration::from_millis(timeout),
            };
            let ended = tools.call(call, |child| tracing::info!(?child), std::future::pending()).await;
            anstream::println!("{ended:#?}");
        }
        _ => anyhow::bail!("tools list | show TOOL | call TOOL JSON"),
    }
    tools.shutdown().await;
    Ok(())
}

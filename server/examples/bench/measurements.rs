//! Named measurements, and the thresholds they must meet.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Measurements {
    values: BTreeMap<String, f64>,
    thresholds: Vec<Threshold>,
}

#[derive(Debug)]
struct Threshold {
    text: String,
    value: f64,
    limit: f64,
    at_least: bool,
}

impl Measurements {
    pub fn record(&mut self, name: &str, value: f64) {
        eprintln!("  {name:<34} {value:>12.2}");
        self.values.insert(name.to_owned(), value);
    }

    pub fn get(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(f64::NAN)
    }

    pub fn require_at_least(&mut self, text: &str, value: f64, limit: f64) {
        self.thresholds.push(Threshold { text: text.to_owned(), value, limit, at_least: true });
    }

    pub fn require_at_most(&mut self, text: &str, value: f64, limit: f64) {
        self.thresholds.push(Threshold { text: text.to_owned(), value, limit, at_least: false });
    }

    /// Prints one JSON document on stdout if `json`, else a table of the thresholds. Fails if a threshold is
    /// missed.
    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        let mut missed = Vec::new();
        let mut lines = String::new();
        for bar in &self.thresholds {
            let holds = if bar.at_least { bar.value >= bar.limit } else { bar.value <= bar.limit };
            let (sign, word) = (if holds { "ok  " } else { "MISS" }, if bar.at_least { "≥" } else { "≤" });
            lines.push_str(&format!("{sign} {:<60} {:>9.2} {word} {}\n", bar.text, bar.value, bar.limit));
            if !holds {
                missed.push(bar.text.clone());
            }
        }
        if json {
            anstream::println!("{}", serde_json::to_string_pretty(&self.values)?);
            eprint!("{lines}");
        } else {
            anstream::print!("{lines}");
        }
        anyhow::ensure!(missed.is_empty(), "bars missed: {}", missed.join("; "));
        Ok(())
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

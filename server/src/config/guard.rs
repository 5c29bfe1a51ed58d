//! The `guard` section: which rules an agent's calls meet, its budget, and how a person is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use actbook_engine::event::CallBudget;
use actbook_engine::rules::{GuardMode, Rule, RuleEffect, ShippedRuleSet};
use serde_json::Value;

use super::ConfigProblem;
use super::section::{Section, did_you_mean};
use super::snapshot::{SnapshotConfig, read_snapshot};

/// How long a call waits for a person's answer, unless the config says otherwise.
const HOLD: Duration = Duration::from_secs(9 * 60);
/// How long a question about a call, and a yes to it, stay good.
const EXPIRES: Duration = Duration::from_secs(10 * 60);

/// The operator's settings for guarded sessions.
#[derive(Clone, Debug)]
pub struct GuardConfig {
    pub mode: GuardMode,
    /// What holds for a tool of which neither a rule nor `servers` speaks.
    pub unknown: RuleEffect,
    /// Whether calls are matched with the steps of plans, and whether only such calls pass.
    pub plan: PlanUse,
    pub ask: AskConfig,
    pub budget: Option<CallBudget>,
    /// What is kept of files; `None`: nothing.
    pub snapshot: Option<SnapshotConfig>,
    /// The shipped rules that `use` switches on, then the config's own.
    pub rules: Vec<Rule>,
}

/// What plans mean to an agent's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlanUse {
    #[default]
    Off,
    /// A call that a plan waits for is recognised, and its end is reported there.
    Match,
    /// Nothing but the calls of approved plans passes.
    Require,
}

impl PlanUse {
    /// The word in the config.
    fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Match => "match",
            Self::Require => "require",
        }
    }
}

/// How a person is asked about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskConfig {
    pub via: AskVia,
    /// How long a call waits for the answer.
    pub hold: Duration,
    /// How long the question, and a yes to it, stay good.
    pub expires: Duration,
}

/// Where a person is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskVia {
    /// By the client's own prompt, where it has one.
    #[default]
    Client,
    /// On the command line or the dashboard; the call waits.
    Hold,
    /// Nowhere at once: the call is refused with the command that approves it.
    Refuse,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self {
            mode: GuardMode::Enforce,
            unknown: RuleEffect::Ask,
            plan: PlanUse::default(),
            ask: AskConfig { via: AskVia::default(), hold: HOLD, expires: EXPIRES },
            budget: None,
            snapshot: None,
            rules: Vec::new(),
        }
    }
}

/// Reads the `guard` section.
pub(super) fn read_guard(mut entry: Section) -> Result<GuardConfig, ConfigProblem> {
    let mut rules = read_shipped_sets(&mut entry)?;
    rules.extend(read_rules(&mut entry)?);
    let config = GuardConfig {
        mode: entry.keyword("mode", GuardMode::ALL, GuardMode::as_str)?.unwrap_or(GuardMode::Enforce),
        unknown: entry.keyword("unknown", RuleEffect::ALL, RuleEffect::as_str)?.unwrap_or(RuleEffect::Ask),
        plan: entry
            .keyword("plan", &[PlanUse::Off, PlanUse::Match, PlanUse::Require], PlanUse::as_str)?
            .unwrap_or_default(),
        ask: read_ask(entry.section("ask")?)?,
        budget: entry.optional_section("budget")?.map(read_budget).transpose()?,
        snapshot: read_snapshot(&mut entry)?,
        rules,
    };
    entry.finish()?;
    Ok(config)
}

/// Reads the names under `use`, each of a rule set that ships with Actbook.
fn read_shipped_sets(entry: &mut Section) -> Result<Vec<Rule>, ConfigProblem> {
    let mut rules = Vec::new();
    for name in entry.texts("use")? {
        let set: ShippedRuleSet = name.parse().map_err(|_| {
            let known: Vec<&str> = ShippedRuleSet::ALL.iter().map(|set| set.as_str()).collect();
            let hint = did_you_mean(&name, known.iter().copied());
            entry.problem_at("use", format!("`{name}` is not one of {}{hint}", known.join(", ")))
        })?;
        rules.extend(set.rules());
    }
    Ok(rules)
}

/// Reads the config's own rules. Two rules of one name are refused: the journal names a rule by its name alone.
fn read_rules(entry: &mut Section) -> Result<Vec<Rule>, ConfigProblem> {
    let mut rules: Vec<Rule> = Vec::new();
    for mut item in entry.sections("rules")? {
        let missing = |item: &Section, key: &str| item.problem_at(key, "is missing".into());
        let name = item.text("name")?.ok_or_else(|| missing(&item, "name"))?;
        let when = item.text("when")?.ok_or_else(|| missing(&item, "when"))?;
        let then = item.keyword("then", RuleEffect::ALL, RuleEffect::as_str)?;
        let then = then.ok_or_else(|| missing(&item, "then"))?;
        let say = item.text("say")?;
        if rules.iter().any(|rule| rule.name == name) {
            return Err(item.problem_at("name", format!("there is a rule `{name}` already")));
        }
        let rule = Rule::parse(&name, &when, then, say.as_deref());
        rules.push(rule.map_err(|error| item.problem_at("when", error.to_string()))?);
        item.finish()?;
    }
    Ok(rules)
}

fn read_ask(mut entry: Section) -> Result<AskConfig, ConfigProblem> {
    const VIA: [AskVia; 3] = [AskVia::Client, AskVia::Hold, AskVia::Refuse];
    let config = AskConfig {
        via: entry.keyword("via", &VIA, AskVia::as_str)?.unwrap_or_default(),
        hold: entry.duration("hold")?.unwrap_or(HOLD),
        expires: entry.duration("expires")?.unwrap_or(EXPIRES),
    };
    if config.expires < config.hold {
        return Err(entry.problem_at("expires", "is shorter than `hold`: a waiting call could expire".into()));
    }
    entry.finish()?;
    Ok(config)
}

fn read_budget(mut entry: Section) -> Result<CallBudget, ConfigProblem> {
    let budget = CallBudget {
        calls: entry.count("calls")?,
        per_tool: read_counts(&mut entry)?,
        wall_ms: entry.duration("wall")?.map(|wall| u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
    };
    entry.finish()?;
    Ok(budget)
}

/// Reads `per_tool`: a number of calls by `server/tool`.
fn read_counts(entry: &mut Section) -> Result<BTreeMap<String, u32>, ConfigProblem> {
    let Some(value) = entry.take_value("per_tool") else { return Ok(BTreeMap::new()) };
    let wrong = || entry.problem_at("per_tool", "must be a mapping from `server/tool` to a number".into());
    let Value::Object(counts) = value else { return Err(wrong()) };
    let count = |value: &Value| value.as_u64().and_then(|count| u32::try_from(count).ok());
    counts.iter().map(|(tool, value)| Ok((tool.clone(), count(value).ok_or_else(wrong)?))).collect()
}

impl AskVia {
    /// The word in the config.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Hold => "hold",
            Self::Refuse => "refuse",
        }
    }
}

//! The `guard` section: which rules an agent's calls meet, its budget, and how a person is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use actbook_engine::chain::Digest;
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
/// Most characters of an offered tool's name, unless the config says otherwise.
const NAME_CHARS: usize = 48;
/// Shorter names would say nothing; clients take no longer ones.
const NAME_CHARS_RANGE: std::ops::RangeInclusive<usize> = 16..=64;
/// How much of a tool's digest tells a cut name from others.
const NAME_DIGEST_CHARS: usize = 6;

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
    pub offer: OfferConfig,
}

/// Which tools of the servers are offered to guarded agents, and under which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferConfig {
    /// Patterns of `server/tool`, in which `*` stands for any characters; empty: all are offered.
    expose: Vec<String>,
    /// Most characters of a name.
    name_chars_max: usize,
}

impl Default for OfferConfig {
    fn default() -> Self {
        Self { expose: Vec::new(), name_chars_max: NAME_CHARS }
    }
}

impl OfferConfig {
    /// Whether guarded agents are offered this tool, written `server/tool`.
    pub fn exposes(&self, tool: &str) -> bool {
        self.expose.is_empty() || self.expose.iter().any(|pattern| matches_pattern(pattern, tool))
    }

    /// The name under which agents are offered a tool, written `server/tool`: `server__tool`. One that is too long, has
    /// other characters than clients take, or could be another tool's too, ends in part of its digest.
    pub fn offered_name(&self, tool: &str) -> String {
        let (server, name) = tool.split_once('/').unwrap_or(("", tool));
        let plain = format!("{server}__{name}");
        let taken: String = plain.chars().map(|c| if is_name_character(c) { c } else { '_' }).collect();
        let is_ambiguous = server.contains("__") || server.ends_with('_') || name.starts_with('_');
        if taken == plain && !is_ambiguous && taken.len() <= self.name_chars_max {
            return taken;
        }
        let digest = Digest::of(tool.as_bytes()).to_string();
        let kept = taken.chars().take(self.name_chars_max - NAME_DIGEST_CHARS - 1);
        format!("{}_{}", kept.collect::<String>(), &digest[..NAME_DIGEST_CHARS])
    }
}

/// Whether clients take the character in a tool's name.
fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Whether the text fits the pattern, in which `*` stands for any characters.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    ends.into_iter().any(|at| matches_pattern(rest, &text[at..]))
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
            offer: OfferConfig::default(),
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
        offer: OfferConfig {
            expose: entry.texts("expose")?,
            name_chars_max: entry.optional_section("names")?.map_or(Ok(NAME_CHARS), read_names)?,
        },
    };
    entry.finish()?;
    Ok(config)
}

/// Reads the most characters that the name of an offered tool has.
fn read_names(mut entry: Section) -> Result<usize, ConfigProblem> {
    let most = entry.count("max")?.map_or(NAME_CHARS, |most| most as usize);
    if !NAME_CHARS_RANGE.contains(&most) {
        let (least, most) = (NAME_CHARS_RANGE.start(), NAME_CHARS_RANGE.end());
        return Err(entry.problem_at("max", format!("is from {least} to {most}")));
    }
    entry.finish()?;
    Ok(most)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offered_names_are_short_plain_and_of_one_tool_each() {
        let offer = OfferConfig { name_chars_max: 20, ..OfferConfig::default() };
        assert_eq!(offer.offered_name("files/read"), "files__read");
        for tool in ["files/read_a_very_long_name", "my files/read", "a__b/c", "a/_b", "a_/b", "a/b.c"] {
            let name = offer.offered_name(tool);
            assert!(name.len() <= 20 && name.chars().all(is_name_character), "{tool}: {name}");
            assert_ne!(name, tool.replace('/', "__"), "{tool}");
        }
        assert_ne!(offer.offered_name("a__b/c"), offer.offered_name("a/b__c"));
    }

    #[test]
    fn patterns_choose_the_exposed_tools() {
        let exposes = |patterns: &[&str], tool| {
            let expose = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            OfferConfig { expose, ..OfferConfig::default() }.exposes(tool)
        };
        assert!(exposes(&[], "files/read"));
        assert!(exposes(&["mail/send", "files/*"], "files/read"));
        assert!(exposes(&["*/read_*"], "files/read_text"));
        assert!(!exposes(&["files/*"], "mail/files/x"));
        assert!(!exposes(&["files/read"], "files/read_text"));
    }
}

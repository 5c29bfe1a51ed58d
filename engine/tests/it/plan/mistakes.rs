//! One mistake per case: the text, and all its findings.

use actbook_engine::plan::Plan;

use super::steps;

fn refusal(text: &str) -> String {
    let Err(findings) = Plan::parse(text) else { return format!("accepted: {text}") };
    let lines = findings
        .iter()
        .map(|finding| format!("{} {}: {}; {}", finding.code, finding.path, finding.message, finding.cure));
    lines.collect::<Vec<_>>().join("\n")
}

/// Cases in the file are `### title`, the plan, `---` and the findings; a text that does not begin like a
/// whole document is one step per line.
#[test]
fn each_mistake_is_named_with_its_place_and_its_cure() {
    let mut wrong = String::new();
    let cases: Vec<&str> = include_str!("mistakes.txt").split("### ").skip(1).collect();
    for case in &cases {
        let (title, rest) = case.split_once('\n').expect("a title");
        let (text, expected) = rest.split_once("---\n").expect("a plan and its findings");
        let whole = ["name:", "{\"", "[", "steps:", "!"].iter().any(|start| text.starts_with(start));
        let text = if whole { text.to_owned() } else { steps(&text.lines().collect::<Vec<_>>()) };
        let findings = refusal(&text);
        if findings.trim() != expected.trim() {
            wrong.push_str(&format!(
                "### {title}\n{}---\n{findings}\n\n",
                rest.split_once("---\n").expect("split above").0
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(cases.len() >= 40, "{} cases", cases.len());
}

#[test]
fn plans_beyond_their_limits_are_refused() {
    let deep = format!("{{\"name\": \"x\", \"steps\": {}1{}}}", "[".repeat(70), "]".repeat(70));
    assert!(refusal(&deep).contains("too_deep plan: values nest deeper than 64"), "{}", refusal(&deep));
    let deeper = format!("{{\"name\": {}", "[".repeat(100_000));
    assert!(refusal(&deeper).starts_with("unreadable line 1"), "{}", refusal(&deeper));
    let deep_yaml = format!("name: {}", "[".repeat(100_000));
    assert!(refusal(&deep_yaml).starts_with("unreadable"), "{}", refusal(&deep_yaml));
    let long = format!("name: {}\n", "x".repeat(5 << 20));
    assert!(refusal(&long).starts_with("too_long plan: "), "{}", refusal(&long));
    let many = vec!["{id: a, tool: s/t}"; 10_001];
    assert_eq!(refusal(&steps(&many)), "out_of_range steps: there are more than 10000 steps; split the plan");
    let laughs = (1..12).fold("name: x\na0: &a0 [1]\n".to_owned(), |text, n| {
        let aliases = vec![format!("*a{}", n - 1); 10].join(", ");
        format!("{text}a{n}: &a{n} [{aliases}]\n")
    });
    assert!(refusal(&laughs).starts_with("unreadable"), "{}", refusal(&laughs));
    assert!(refusal(&laughs).contains("too many anchors (&) and aliases (*)"), "{}", refusal(&laughs));
    let many_errors = vec!["{id: '', tool: x}"; 300];
    assert!(
        refusal(&steps(&many_errors))
            .ends_with("more_errors plan: there are 400 more errors; cure these first")
    );
}

//! Spellings of one thing: paths that tools resolve otherwise, searches, headers of patches, and numbers that lose digits.

use super::*;

/// A sandbox that denies writes outside its folder, with `link` to `a/b/c`.
fn linked() -> Sandbox {
    let guard = json!({ "use": ["stay-in-folder", "protect-agent-config", "no-secrets-out"], "unknown": "allow", "ask": { "via": "refuse" } });
    let sandbox = guarded(guard);
    std::fs::create_dir_all(sandbox.path("a/b/c")).unwrap();
    std::os::unix::fs::symlink("a/b/c", sandbox.path("link")).unwrap();
    std::os::unix::fs::symlink("/etc", sandbox.path("x:")).unwrap();
    sandbox
}

#[test]
fn path_is_judged_by_every_reading_of_its_spelling() {
    let sandbox = linked();
    let own = sandbox.folder.path().display().to_string();
    let outside = [
        "link/../../out".to_owned(),
        "link/../../../../out".to_owned(),
        "y://../../out".to_owned(),
        "x://passwd".to_owned(),
        format!("{own}/y://../../../out"),
        "file:/etc/x".to_owned(),
        "file:etc/../../x".to_owned(),
        "FILE:///etc/x".to_owned(),
        "file://other/etc/x".to_owned(),
        " file:///etc/x".to_owned(),
        "fi\nle:///etc/x".to_owned(),
        r"file:\\\etc\x".to_owned(),
        format!("file://{own}/%2e%2e/out"),
        format!("file://{own}/%2E./out"),
        format!("file://{own}/..%2fout"),
        "y://../.claude/settings.json".to_owned(),
        format!("file://{own}/actbook%2eyaml"),
        format!("file://{own}/actbook.yaml?x=1"),
    ];
    for (no, path) in outside.iter().enumerate() {
        let call = before(&sandbox, &no.to_string(), "mcp__notes__keep", json!({ "path": path }));
        let decided = decide(&sandbox, &call).map(|(decision, _)| decision);
        assert_eq!(decided.as_deref(), Some("deny"), "{path}");
    }
    let inside = ["y://a/b", "https://x.example/a?b=..", "a/../b", "link/../b", "a:b", "%2e%2e/x"];
    for path in inside.into_iter().map(str::to_owned).chain([format!("file://{own}/a%20b")]) {
        let call = before(&sandbox, &path, "mcp__notes__keep", json!({ "uri": path }));
        assert_eq!(decide(&sandbox, &call), None, "{path}");
    }
}

#[test]
fn padded_header_of_a_patch_names_its_file() {
    let sandbox = linked();
    for header in
        [" *** Add File: /etc/x", "\t*** Delete File:  /etc/x  ", "*** Update File: a\n  *** Move to: /etc/x"]
    {
        let patch = format!("*** Begin Patch\n{header}\n+a\n*** End Patch");
        let call = before(&sandbox, header, "apply_patch", json!({ "command": patch })).to_string();
        let ran = start_hook(&sandbox, "codex", &call, &[]).wait_with_output().unwrap();
        assert_eq!(decision(&ran.into()).unwrap().0, "deny", "{header}");
    }
}

#[test]
fn searches_read_their_folder_and_what_their_patterns_name() {
    let sandbox = linked();
    let ssh = sandbox.path(".ssh");
    let asked = [
        ("Glob", json!({ "pattern": "/etc/**" })),
        ("Glob", json!({ "pattern": "../**/*.rs" })),
        ("Glob", json!({ "pattern": "{a,../../etc}/{b,c}" })),
        // What is not written out may be any path.
        ("Glob", json!({ "pattern": format!("{{{}}}", ",".repeat(100)) })),
        ("Glob", json!({ "pattern": format!("{{{}}}", ",".repeat(1_000_000)) })),
        ("Glob", json!({ "pattern": "x", "path": "/etc" })),
        ("Grep", json!({ "pattern": ".", "path": ssh, "output_mode": "content" })),
        ("Grep", json!({ "pattern": ".", "glob": ".env", "output_mode": "content" })),
        ("Grep", json!({ "pattern": ".", "glob": "**/.env*" })),
        ("Grep", json!({ "pattern": ".", "glob": "a", "paths": ["/etc"] })),
    ];
    for (number, (tool, input)) in asked.into_iter().enumerate() {
        let call = before(&sandbox, &format!("asked{number}"), tool, input.clone());
        assert_eq!(decide(&sandbox, &call).expect("an answer").0, "deny", "{input}");
    }
    let mut elsewhere = before(&sandbox, "elsewhere", "Grep", json!({ "pattern": "." }));
    elsewhere["cwd"] = json!("/etc");
    let mut command = sandbox.command(&["hook", "claude-code"]);
    command.env("CLAUDE_PROJECT_DIR", sandbox.folder.path());
    assert_eq!(decision(&run_with_event(command, &elsewhere.to_string())).unwrap().0, "deny");
    for (tool, input) in [
        ("Glob", json!({ "pattern": "**/*.{rs,toml}" })),
        ("Grep", json!({ "pattern": "../etc", "glob": "*.rs" })),
        ("Grep", json!({ "pattern": "/etc/passwd", "path": "a" })),
    ] {
        assert_eq!(
            decide(&sandbox, &before(&sandbox, &input.to_string(), tool, input.clone())),
            None,
            "{input}"
        );
    }
}

#[test]
fn number_that_would_lose_digits_is_no_call() {
    let sandbox = guarded(json!({ "unknown": "allow" }));
    let with_number = |input: &str| {
        let event = before(&sandbox, "t1", "mcp__pay__charge", json!("INPUT")).to_string();
        event.replace("\"INPUT\"", input)
    };
    for input in [
        r#"{"amount":18446744073709551616}"#,
        r#"{"amount":18446744073709551617}"#,
        r#"{"a":[{"b":-9223372036854775809}]}"#,
        r#""{\"amount\":18446744073709551616}""#,
    ] {
        let ran = start_hook(&sandbox, "claude-code", &with_number(input), &[]).wait_with_output().unwrap();
        let ran = CliOutput::from(ran);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{input}");
        assert!(ran.stderr.contains("64 bits"), "{}", ran.stderr);
    }
    let small = with_number(r#"{"amount":18446744073709551615,"text":"18446744073709551616"}"#);
    let ran = CliOutput::from(start_hook(&sandbox, "claude-code", &small, &[]).wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    // What a tool returned is recorded with all its digits.
    let call = before(&sandbox, "t2", "mcp__pay__charge", json!({ "amount": 1 }));
    assert_eq!(decide(&sandbox, &call), None);
    let ended =
        after(&call, json!("INPUT")).to_string().replace("\"INPUT\"", "{\"id\":18446744073709551616}");
    start_hook(&sandbox, "claude-code", &ended, &[]).wait_with_output().unwrap();
    let view = sandbox.json(&["show", &sandbox.newest(), "c2"]);
    assert_eq!(view["output"]["id"], "18446744073709551616", "{view}");
}

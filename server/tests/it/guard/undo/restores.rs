//! Single cases of what an undo restores, what it asks about, and what it leaves.

use super::*;

#[test]
fn edits_and_shell_commands_are_undone_and_the_session_stays_open() {
    let mut project = Project::new();
    project.write("a.txt", "one\n");
    project.write("sub/b.txt", "b\n");
    let before = project.tree();
    project.agent_writes("a.txt", "two\n");
    project.agent_writes("new/made.txt", "made\n");
    project.agent_runs("sed -i s/two/three/ a.txt; rm -r sub; mkdir x; chmod 700 x; ln -s a.txt link");
    project.agent_runs("mv a.txt moved.txt; false");
    let outlook = project.outlook(&[]);
    assert!(outlook.values().all(|(class, stays)| class == "restored" && stays.is_empty()), "{outlook:?}");
    assert!(project.undo(&[], "skip").is_empty());
    assert_eq!(differences(&before, &project.tree()), Vec::<String>::new());
    assert_eq!(statuses(&project.sandbox), ["compensated"; 4]);
    assert_eq!(project.sandbox.json(&["list"])[0]["status"], "running");
    project.sandbox.expect(0, &["verify"]);
    // What was made lies in the trash folder.
    let trash = project.sandbox.path("data/actbook/snapshots");
    let found = Command::new("grep").args(["-rl", "made"]).arg(trash).output().unwrap();
    assert!(String::from_utf8(found.stdout).unwrap().contains("/trash/"));
    // The session goes on, and its next calls can be undone too.
    project.agent_writes("a.txt", "four\n");
    project.undo(&[], "skip");
    assert_eq!(project.read("a.txt"), "one\n");
}

#[test]
fn persons_edit_is_asked_about_and_stays() {
    let mut project = Project::new();
    project.write("a.txt", "one");
    project.write("b.txt", "one");
    project.agent_writes("a.txt", "two");
    project.agent_runs("echo three > a.txt; echo three > b.txt");
    project.write("a.txt", "mine");
    let (_, stays) = &project.outlook(&[])["c2"];
    assert_eq!(stays, &[("a.txt".to_owned(), "changed_since".to_owned())]);
    assert_eq!(project.undo(&[], "skip"), BTreeSet::from(["a.txt".to_owned()]));
    assert_eq!((project.read("a.txt"), project.read("b.txt")), ("mine".to_owned(), "one".to_owned()));
}

#[test]
fn persons_yes_restores_over_what_the_question_named() {
    let mut project = Project::new();
    project.write("a.txt", "one");
    project.agent_writes("a.txt", "two");
    project.write("a.txt", "mine");
    assert_eq!(project.undo(&[], "retry"), BTreeSet::from(["a.txt".to_owned()]));
    assert_eq!(project.read("a.txt"), "one");
}

#[test]
fn edit_between_two_calls_ends_the_first_run_of_calls() {
    let mut project = Project::new();
    project.write("a.txt", "one");
    project.agent_writes("a.txt", "two");
    project.write("a.txt", "mine");
    project.agent_writes("a.txt", "three");
    assert_eq!(project.undo(&[], "skip"), BTreeSet::from(["a.txt".to_owned()]));
    assert_eq!(project.read("a.txt"), "mine");
}

#[test]
fn undo_from_a_call_leaves_what_was_before_it() {
    let mut project = Project::new();
    project.write("a.txt", "one");
    project.agent_writes("a.txt", "two");
    let from = project.agent_writes("a.txt", "three");
    project.agent_writes("b.txt", "b");
    assert_eq!(project.outlook(&["--from", &from]).len(), 2);
    project.undo(&["--from", &from], "skip");
    assert_eq!(project.read("a.txt"), "two");
    assert!(!project.path("b.txt").exists());
    let refused = project.sandbox.run(&["undo", &project.sandbox.newest(), "--from", "c99"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
}

#[test]
fn nothing_is_restored_through_a_link_or_outside_the_folder() {
    let mut project = Project::new();
    project.write("d/a.txt", "one");
    project.agent_writes("d/a.txt", "two");
    let outside = project.sandbox.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("a.txt"), "two").unwrap();
    std::fs::rename(project.path("d"), project.sandbox.path("away")).unwrap();
    std::os::unix::fs::symlink(&outside, project.path("d")).unwrap();
    assert_eq!(project.undo(&[], "skip"), BTreeSet::from(["d/a.txt".to_owned()]));
    assert_eq!(std::fs::read_to_string(outside.join("a.txt")).unwrap(), "two");

    let path = outside.join("b.txt");
    project
        .call("Write", json!({ "file_path": path, "content": "x" }), || std::fs::write(&path, "x").unwrap());
    let (class, stays) = &project.outlook(&[])["c2"];
    assert_eq!((class.as_str(), stays[0].1.as_str()), ("cannot_undo", "outside_folder"));
}

#[test]
fn kept_files_are_private_and_of_one_session() {
    let mut project = Project::new();
    project.write("a.txt", "a very secret content");
    project.agent_writes("a.txt", "two");
    let store = project.sandbox.path("data/actbook/snapshots");
    let mut files = Tree::new();
    collect(&store, "", &mut files);
    let blobs: Vec<_> = files.iter().filter(|(path, _)| path.contains("/blobs/")).collect();
    assert_eq!(blobs.len(), 2, "{:?}", files.keys());
    for (path, (_, mode, _)) in &files {
        assert!(mode & 0o077 == 0 || path == "machine", "{path} has mode {mode:o}");
    }
    // The same content in another session has another name.
    let names: BTreeSet<String> =
        blobs.iter().map(|(path, _)| path.rsplit('/').next().unwrap().to_owned()).collect();
    let mut other = Project::new();
    other.write("a.txt", "a very secret content");
    other.agent_writes("a.txt", "two");
    let mut files = Tree::new();
    collect(&other.sandbox.path("data/actbook/snapshots"), "", &mut files);
    assert!(files.keys().all(|path| !names.contains(path.rsplit('/').next().unwrap())));
}

#[test]
fn large_ignored_and_lost_files_are_named() {
    let guard = json!({ "snapshot": { "folder": "project", "file_max": "1KB", "ignore": ["*.log"] } });
    let mut project = Project::with_guard(guard, json!({}));
    project.write("large.bin", &"x".repeat(2000));
    project.agent_runs("echo more >> large.bin; echo y > small.txt; echo z > a.log");
    let (class, stays) = &project.outlook(&[])["c1"];
    assert_eq!(class, "restored");
    assert_eq!(stays, &[("large.bin".to_owned(), "too_large".to_owned())]);
    project.agent_runs("git push origin main");
    assert_eq!(project.outlook(&[])["c2"].1, [(String::new(), "network".to_owned())]);
    std::fs::remove_dir_all(project.sandbox.path("data/actbook/snapshots")).unwrap();
    project.sandbox.run(&["list"]);
    assert_eq!(project.outlook(&[])["c1"].1[0].1, "other_host");
}

#[test]
fn folder_that_cannot_be_kept_is_asked_about() {
    let guard = json!({ "snapshot": { "folder": "project", "total_max": "1KB" } });
    let project = Project::with_guard(guard, json!({}));
    for no in 0..4 {
        project.write(&format!("{no}.txt"), &"x".repeat(600));
    }
    let mut call = before(&project.sandbox, "toolu_1", "Bash", json!({ "command": "ls" }));
    call["cwd"] = json!(project.folder());
    let (decision, reason) = decide(&project.sandbox, &call).unwrap();
    assert_eq!(decision, "ask");
    assert!(reason.contains("no undo"), "{reason}");

    let guard = json!({ "snapshot": { "folder": "/" } });
    let project = Project::with_guard(guard, json!({}));
    let call = before(&project.sandbox, "toolu_1", "Bash", json!({ "command": "ls" }));
    assert!(decide(&project.sandbox, &call).unwrap().1.contains("neither / nor the home folder"));
}

#[test]
fn tool_of_the_config_is_taken_back_unless_something_else_changed_it() {
    let tools = json!({ "write_file": {
        "before": { "tool": "files/read_file", "arguments": { "path": "${arguments.path}" } },
        "undo": { "tool": "files/write_file", "arguments": { "path": "${arguments.path}", "content": "${before.content}" } },
    } });
    let servers = json!({ "files": { "tools": tools } });
    for changed in [false, true] {
        let mut project =
            Project::with_guard(json!({ "snapshot": { "folder": "project" } }), servers.clone());
        let file = project.sandbox.path("work/a.txt");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "one").unwrap();
        let input = json!({ "path": "a.txt", "content": "two" });
        project.call("mcp__files__write_file", input, || std::fs::write(&file, "two").unwrap());
        assert_eq!(project.outlook(&[])["c1"].0, "compensated");
        if changed {
            std::fs::write(&file, "mine").unwrap();
            let ran = project.sandbox.run(&["undo", &project.sandbox.newest()]);
            assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
            let id = project.sandbox.newest();
            project.sandbox.expect(0, &["decide", &id, "c1", "retry", "--reason", "it was wrong too"]);
            project.sandbox.expect(0, &["resume", &id]);
        } else {
            project.undo(&[], "skip");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
    }
}

#[test]
fn plan_may_not_restore_files() {
    let project = Project::new();
    project.sandbox.write(
        "plan.json",
        &json!({ "name": "p", "steps": [
        { "id": "a", "tool": "actbook/restore_files", "arguments": { "folder": "/", "files": [] } },
    ] })
        .to_string(),
    );
    let ran = project.sandbox.run(&["run", "plan.json"]);
    assert_ne!(ran.code, Some(0), "{}", ran.stdout);
    assert!(!project.sandbox.expect(0, &["tools", "list"]).contains("restore_files"));
}

#[test]
fn edit_that_stays_leaves_no_folder_of_the_session_behind() {
    let mut project = Project::new();
    project.write("a.txt", "one");
    let before = project.tree();
    project.agent_runs("mkdir n");
    project.agent_runs("rmdir n; echo two > a.txt");
    project.write("a.txt", "mine");
    assert_eq!(project.undo(&[], "skip"), BTreeSet::from(["a.txt".to_owned()]));
    assert_eq!(project.read("a.txt"), "mine");
    project.write("a.txt", "one");
    assert_eq!(differences(&before, &project.tree()), Vec::<String>::new());
}

#[test]
fn write_through_one_name_of_a_file_is_undone_at_all_its_names() {
    let mut project = Project::new();
    project.write("a.txt", "one");
    std::fs::create_dir(project.path("d")).unwrap();
    std::fs::hard_link(project.path("a.txt"), project.path("d/b.txt")).unwrap();
    let before = project.tree();
    project.agent_runs("ln a.txt c.txt");
    project.agent_writes("a.txt", "two");
    assert_eq!(project.read("d/b.txt"), "two");
    assert!(project.undo(&[], "skip").is_empty());
    assert_eq!(differences(&before, &project.tree()), Vec::<String>::new());
}

//! kill -9 of the hook and of the undo at every position of their journal: nothing is lost, the agent's next call goes on,
//! and an undo that was killed is finished by the next one.

use std::time::Duration;

use super::*;
use crate::crash::direct_sql::DirectSql;

/// Looks at the journal this often while a process is to be killed at a position.
const HEAD_POLL_INTERVAL: Duration = Duration::from_micros(200);

fn make_session() -> (Project, Tree) {
    let mut project = Project::new();
    project.write("a.txt", "one\n");
    project.write("d/b.txt", "b\n");
    let before = project.tree();
    project.agent_writes("a.txt", "two\n");
    project.agent_runs(
        "sed -i s/two/three/ a.txt; mv d/b.txt c.txt; mkdir -p n/m; echo x > n/m/x.txt; ln -s a.txt l",
    );
    project.agent_writes("n/new.txt", "new\n");
    (project, before)
}

fn open_journal(project: &Project) -> DirectSql {
    let default = || format!("sqlite:{}", project.sandbox.path("data/actbook/actbook.db").display());
    DirectSql::open(&project.sandbox.database.clone().unwrap_or_else(default))
}

/// Kills the process once the journal has reached the position, after a short random time. False: it ended before.
fn kill_at(project: &Project, mut child: Child, position: i64, rng: &mut SeededRng) -> bool {
    let journal = open_journal(project);
    while child.try_wait().unwrap().is_none() {
        if journal.head() >= position {
            std::thread::park_timeout(Duration::from_micros(rng.next() % 3000));
            child.kill().unwrap();
            break;
        }
        std::thread::park_timeout(HEAD_POLL_INTERVAL);
    }
    child.wait().unwrap().code().is_none()
}

#[test]
fn undo_that_is_killed_at_any_position_is_finished_by_the_next_one() {
    let mut rng = SeededRng::from_env("kills of an undo");
    let (undisturbed, _) = make_session();
    let first = open_journal(&undisturbed).head();
    undisturbed.sandbox.expect(0, &["undo", &undisturbed.sandbox.newest()]);
    let entries = open_journal(&undisturbed).head() - first;
    let mut kills = 0;
    for offset in 1..=entries {
        let (project, before) = make_session();
        let id = project.sandbox.newest();
        let start = open_journal(&project).head();
        let undo = project.sandbox.start(&["undo", &id]);
        kills += u32::from(kill_at(&project, undo, start + offset, &mut rng));
        for _ in 0..20 {
            let view = project.sandbox.json(&["show", &id]);
            if view["status"] == "compensating" {
                let ended = project.sandbox.run(&["resume", &id]);
                assert_eq!(ended.code, Some(0), "offset {offset}: {}{}", ended.stdout, ended.stderr);
            }
        }
        if project.tree() != before {
            // It was killed before the undo was journaled.
            project.undo(&[], "skip");
        }
        assert_eq!(differences(&before, &project.tree()), Vec::<String>::new(), "offset {offset}");
        assert_eq!(statuses(&project.sandbox), ["compensated"; 3], "offset {offset}");
        project.sandbox.expect(0, &["verify"]);
    }
    // Beside a load an undo may end before the kill takes hold; what is checked above holds then too.
    assert!(kills > 0, "no undo was killed in {entries} positions");
}

/// A session of three calls, whose hooks are killed once, when the journal has reached `position`. A client makes no call
/// whose hook has died.
fn run_session(project: &Project, position: i64, rng: &mut SeededRng) {
    let mut is_due = true;
    let mut run_hook = |event: &Value| {
        if !is_due {
            assert_eq!(decide(&project.sandbox, event), None);
            return true;
        }
        let hook = start_hook(&project.sandbox, "claude-code", &event.to_string(), &[]);
        is_due = !kill_at(project, hook, position, rng);
        is_due
    };
    for call in 0..3 {
        let script = format!("echo {call} >> a.txt; mkdir -p made{call}; echo {call} > made{call}/x.txt");
        let mut event =
            super::before(&project.sandbox, &format!("t{call}"), "Bash", json!({ "command": script }));
        event["cwd"] = json!(project.folder());
        if run_hook(&event) {
            let ran =
                Command::new("sh").args(["-c", &script]).current_dir(project.folder()).status().unwrap();
            assert!(ran.success());
            run_hook(&after(&event, json!({})));
        }
    }
    decide(&project.sandbox, &session_event(&project.sandbox, "Stop", json!({})));
}

#[test]
fn hook_that_is_killed_at_any_position_loses_nothing() {
    let mut rng = SeededRng::from_env("kills of hooks at positions");
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let undisturbed = Project::on(kind);
        run_session(&undisturbed, i64::MAX, &mut rng);
        let last = open_journal(&undisturbed).head();
        for position in 1..=last {
            let project = Project::on(kind);
            project.write("a.txt", "one\n");
            let before = project.tree();
            run_session(&project, position, &mut rng);
            project.sandbox.expect(0, &["verify"]);
            project.undo(&[], "skip");
            assert_eq!(differences(&before, &project.tree()), Vec::<String>::new(), "{kind:?}: {position}");
        }
    }
}

#[test]
fn hook_that_is_killed_at_any_time_loses_nothing() {
    let mut rng = SeededRng::from_env("kills of hooks");
    for round in 0..times("ACTBOOK_HOOK_KILLS", 40) {
        let project = Project::new();
        project.write("a.txt", "one\n");
        let before = project.tree();
        let killed = rng.below(6);
        for call in 0..3 {
            let script = format!("echo {call} >> a.txt; echo {call} > made{call}.txt");
            let mut event =
                super::before(&project.sandbox, &format!("t{call}"), "Bash", json!({ "command": script }));
            event["cwd"] = json!(project.folder());
            let answered = run_or_kill(&project, &event, killed == call * 2, &mut rng);
            // A client makes no call whose hook has died.
            if !answered {
                continue;
            }
            let ran =
                Command::new("sh").args(["-c", &script]).current_dir(project.folder()).status().unwrap();
            assert!(ran.success());
            run_or_kill(&project, &after(&event, json!({})), killed == call * 2 + 1, &mut rng);
        }
        decide(&project.sandbox, &session_event(&project.sandbox, "Stop", json!({})));
        project.sandbox.expect(0, &["verify"]);
        project.undo(&[], "skip");
        assert_eq!(differences(&before, &project.tree()), Vec::<String>::new(), "round {round}");
    }
}

/// Runs a hook, and kills it somewhere on its way if `kills`. False: it was killed.
fn run_or_kill(project: &Project, event: &Value, kills: bool, rng: &mut SeededRng) -> bool {
    if !kills {
        assert_eq!(decide(&project.sandbox, event), None);
        return true;
    }
    let mut hook = start_hook(&project.sandbox, "claude-code", &event.to_string(), &[]);
    std::thread::park_timeout(Duration::from_micros(rng.next() % 60_000));
    hook.kill().unwrap();
    hook.wait().unwrap().code().is_some()
}

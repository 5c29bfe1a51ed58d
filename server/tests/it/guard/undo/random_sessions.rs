//! Random sessions: edits, moves, deletions, changes of modes, links and shell scripts, some followed by a person's
//! edits. After the undo the folder is as before, except where the person has touched it, and that was asked about.

use super::*;

const SESSIONS_DEFAULT: usize = 60;
/// Fewer on PostgreSQL: the files are kept in the same way.
const POSTGRES_SESSIONS_DEFAULT: usize = 10;
/// The same sessions in each run; `ACTBOOK_SEED` and `ACTBOOK_UNDO_SESSIONS` choose others.
const SEED_DEFAULT: u64 = 1;
/// Sessions in one sandbox: each has a project of its own.
const CALLS_MAX: usize = 6;
const NAMES: [&str; 8] = ["a.txt", "b.txt", "d/c.txt", "d/e/f.txt", "g/h.txt", "tool.sh", "x.txt", "g/y.txt"];

#[test]
fn folder_is_as_before_but_for_what_a_person_touched() {
    run_sessions(times("ACTBOOK_UNDO_SESSIONS", SESSIONS_DEFAULT), Project::new);
}

#[test]
fn folder_is_as_before_with_a_journal_in_postgres() {
    let sessions = times("ACTBOOK_UNDO_POSTGRES_SESSIONS", POSTGRES_SESSIONS_DEFAULT);
    run_sessions(sessions, || Project::on(Kind::Postgres));
}

fn run_sessions(sessions: usize, new_project: impl Fn() -> Project) {
    let has_seed = std::env::var_os("ACTBOOK_SEED").is_some();
    let mut rng =
        if has_seed { SeededRng::from_env("random guarded sessions") } else { SeededRng::new(SEED_DEFAULT) };
    for session in 0..sessions {
        let seed = rng.next();
        eprintln!("session {session}, seed {seed}");
        run_session(new_project(), &mut SeededRng::new(seed));
    }
}

fn run_session(mut project: Project, rng: &mut SeededRng) {
    make_project(&project, rng);
    let before = project.tree();
    for _ in 0..=rng.below(CALLS_MAX) {
        let name = *rng.pick(&NAMES);
        if rng.once_in(3) && !blocks_writing(&project, name) {
            project.agent_writes(name, &format!("written {}\n", rng.next()));
        } else {
            let script = script(rng);
            project.agent_runs(&script);
        }
    }
    let left = project.tree();
    let touched = if rng.once_in(3) { touch_as_person(&project, rng) } else { BTreeSet::new() };
    let changed_by_agent = |path: &String| before.get(path) != left.get(path);
    let outlook = project.outlook_or_nothing();
    for (step, (class, stays)) in &outlook {
        assert!(class == "restored" || !stays.is_empty(), "{step}");
        for (path, why) in stays {
            let is_touched =
                touched.iter().any(|one| one == path || is_below(one, path) || is_below(path, one));
            assert!(why == "changed_since" && is_touched, "{step}: {path} {why}, touched {touched:?}");
        }
    }
    let told: BTreeSet<&String> =
        outlook.values().flat_map(|(_, stays)| stays.iter().map(|(path, _)| path)).collect();
    for path in touched.iter().filter(|path| changed_by_agent(path)) {
        let now = project.tree().get(path).cloned();
        assert!(told.contains(path) || now == before.get(path).cloned(), "{path} is not told; {outlook:?}");
    }
    let person = project.tree();
    if !outlook.is_empty() {
        project.undo(&[], "skip");
    }
    let now = project.tree();
    let is_near =
        |path: &String| touched.iter().any(|one| one == path || is_below(one, path) || is_below(path, one));
    let without = |tree: &Tree| -> Tree {
        tree.iter()
            .filter(|(path, _)| !is_near(path))
            .map(|(path, found)| (path.clone(), found.clone()))
            .collect()
    };
    assert_eq!(differences(&without(&before), &without(&now)), Vec::<String>::new(), "touched {touched:?}");
    for path in &touched {
        assert_eq!(now.get(path), person.get(path), "{path} is a person's");
    }
}

impl Project {
    /// The outlook, which is empty where nothing ran.
    fn outlook_or_nothing(&self) -> BTreeMap<String, (String, Vec<(String, String)>)> {
        if self.calls == 0 { BTreeMap::new() } else { self.outlook(&[]) }
    }
}

/// Whether `inner` lies below `outer`.
fn is_below(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether something that is no file stands where the agent would write, or on the way there.
fn blocks_writing(project: &Project, name: &str) -> bool {
    let is_no_folder = |path: &Path| path.symlink_metadata().is_ok_and(|found| !found.is_dir());
    let is_no_file = |path: &Path| path.symlink_metadata().is_ok_and(|found| !found.is_file());
    let target = project.path(name);
    let ways = target.ancestors().skip(1).take_while(|way| way.starts_with(project.folder()));
    is_no_file(&target) || ways.into_iter().any(is_no_folder)
}

fn make_project(project: &Project, rng: &mut SeededRng) {
    for name in NAMES {
        if !rng.once_in(3) {
            project.write(name, &format!("{name} {}\n", rng.next()));
        }
    }
    project.write("tool.sh", "#!/bin/sh\n");
    let mode = std::fs::Permissions::from_mode(*rng.pick(&[0o755, 0o700, 0o644]));
    std::fs::set_permissions(project.path("tool.sh"), mode).unwrap();
    std::os::unix::fs::symlink("a.txt", project.path("link")).unwrap();
    if rng.once_in(2) {
        let script = "git init -q -b main . && git config user.email a@b.example && git config user.name a && git add -A \
                      && git commit -qm one && git checkout -qb other && echo branch > branch.txt && git add -A && \
                      git commit -qm two && git checkout -q main";
        let ran = Command::new("sh").args(["-c", script]).current_dir(project.folder()).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
}

/// A shell script; some of them fail.
fn script(rng: &mut SeededRng) -> String {
    let (one, other) = (*rng.pick(&NAMES), *rng.pick(&NAMES));
    let folder = *rng.pick(&["d", "d/e", "g", "new", "n/m"]);
    let scripts = [
        format!("sed -i 's/[0-9]/x/' {one}"),
        format!("mv {one} {other}"),
        format!("mkdir -p {folder} && mv {one} {folder}/"),
        format!("rm -rf {folder}"),
        format!("rm -f {one} {other}"),
        format!("tar -cf all.tar {folder} && rm -rf {folder} && tar -xf all.tar"),
        "tar -cf ../all.tar . && mkdir -p unpacked && tar -xf ../all.tar -C unpacked".to_owned(),
        "git checkout -q other".to_owned(),
        "git checkout -q main -- . ; git stash -q".to_owned(),
        format!("chmod 600 {one}; chmod 711 {folder}"),
        format!("ln -sf {one} link; ln -s ../.. up{}", rng.below(9)),
        format!("mkdir -p {folder}/deep/er; touch {folder}/deep/er/empty"),
        format!("rm -rf {folder}; echo a file > {folder}"),
        format!("rm -f {one}; mkdir -p {one}; echo inside > {one}/in.txt"),
        format!("cp -r {folder} copy{}; echo {} >> {one}", rng.below(9), rng.next()),
        format!("echo before > {one}; false"),
        format!("ln {one} hard{}", rng.below(4)),
        format!("ln -f {one} {other}; echo more >> {other}"),
    ];
    let count = 1 + rng.below(2);
    (0..count).map(|_| rng.pick(&scripts).clone()).collect::<Vec<_>>().join("\n")
}

/// A person edits, makes or removes up to three files. Returns what was touched.
fn touch_as_person(project: &Project, rng: &mut SeededRng) -> BTreeSet<String> {
    let files: Vec<String> = project
        .tree()
        .into_iter()
        .filter(|(path, found)| found.0 == 'f' && !path.starts_with(".git"))
        .map(|(path, _)| path)
        .collect();
    let mut touched = BTreeSet::new();
    for _ in 0..=rng.below(3) {
        let text = format!("a person's {}\n", rng.next());
        match files.get(rng.below(files.len() + 1)) {
            Some(path) if rng.once_in(4) => {
                drop(std::fs::remove_file(project.path(path)));
                touched.insert(path.clone());
            }
            Some(path) if project.path(path).parent().is_some_and(Path::is_dir) => {
                // A hard link is cut, so that the person touches one path alone.
                drop(std::fs::remove_file(project.path(path)));
                std::fs::write(project.path(path), text).unwrap();
                touched.insert(path.clone());
            }
            _ => {
                std::fs::write(project.path("persons.txt"), text).unwrap();
                touched.insert("persons.txt".to_owned());
            }
        }
    }
    touched
}

//! Every page in light and dark, on a desk and on a phone: accessible, without a word on the console, without a request
//! to another host, and never wider than the screen. With `ACTBOOK_SCREENSHOTS` set to a folder, each is pictured there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};

use super::book::{Book, Executions};
use super::driver::{Browser, DESKTOP, PHONE_DARK, VIEWPORTS, Viewport};
use super::screenshots;
use crate::reference_servers::install_folder;

/// Where the pages end that a crawl reads: a page that leads to ever more pages is a mistake of the test.
const PAGES_MAX: usize = 2_000;
/// Pages with the same path and query parameters that a crawl reads at most.
const OF_A_QUERY_MAX: usize = 2;
/// Pages that the browser fetches beside each other.
const PAGES_AT_ONCE: usize = 4;

/// Fetches pages, parses each without running it, and returns its links to other pages and what `check` finds in it;
/// `null` for what is no page.
const READ_PAGES: &str = r"
    const [paths] = given;
    const read = async (path) => {
      const response = await fetch(path);
      if (!response.headers.get('content-type')?.startsWith('text/html')) return null;
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      const links = [...page.querySelectorAll('a[href]:not([download]), [data-href]')];
      const urls = links.map((link) => new URL(link.dataset.href ?? link.getAttribute('href'), new URL(path, location)));
      const own = urls.filter((url) => url.origin === location.origin).map((url) => url.pathname + url.search);
      return { links: [...new Set(own)], found: found(page) };
    };
    return Promise.all(paths.map(read));";

/// What may follow the name of an area in a path and is no id.
const PARTS: [&str; 5] = ["confirm", "diff", "edit", "new", "rerun"];

/// What pages that look alike have in common: the path apart from ids, the view, whether a step's panel is open, which
/// action is confirmed, and whether there is any other parameter.
fn shape(path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let parts: Vec<&str> = path
        .split('/')
        .enumerate()
        .map(|(at, part)| if at > 1 && !PARTS.contains(&part) { "*" } else { part })
        .collect();
    let parameters: BTreeSet<&str> = query.split('&').map(shape_of_parameter).collect();
    format!("{}?{}", parts.join("/"), parameters.into_iter().collect::<Vec<_>>().join("&"))
}

fn shape_of_parameter(pair: &str) -> &str {
    match pair.split('=').next() {
        Some("view" | "action") => pair,
        Some(name @ ("step" | "")) => name,
        _ => "other",
    }
}

/// The pages that a crawl found, in the order of their links, and what a check found in them.
#[derive(Debug, Default)]
pub struct Crawl {
    pub paths: Vec<String>,
    pub findings: Vec<String>,
}

impl Crawl {
    /// The first `always` pages, and of the others one of each shape.
    pub fn representative(&self, always: usize) -> Vec<&str> {
        let mut shapes = BTreeSet::new();
        let paths = self.paths.iter().enumerate();
        let chosen = paths.filter(|(at, path)| shapes.insert(shape(path)) || *at < always);
        chosen.map(|(_, path)| path.as_str()).collect()
    }

    /// Adds what the browser read on a page.
    fn add(&mut self, path: &str, page: &Value) {
        self.paths.push(path.to_owned());
        let found = page["found"].as_array().unwrap();
        self.findings.extend(found.iter().map(|one| format!("{path}: {}", one.as_str().unwrap())));
    }
}

/// Reads these pages and those that links lead to, `of_a_path_max` of each shape besides the first ones; of filters of a
/// list a few. `check` is the body of a function that gets the parsed `document` and returns a list of texts. Nothing
/// on the pages runs.
pub fn crawl(browser: &Browser, first: Vec<String>, of_a_path_max: usize, check: &str) -> Crawl {
    let mut known: BTreeSet<String> = first.iter().cloned().collect();
    let mut of_shape = BTreeMap::<String, usize>::new();
    let mut open = VecDeque::from(first);
    let mut crawl = Crawl::default();
    while !open.is_empty() {
        let batch: Vec<String> = open.drain(..PAGES_AT_ONCE.min(open.len())).collect();
        // A function that is made from a text is against the policy of the page.
        let script = format!("const found = (document) => {{ {check} }}; {READ_PAGES}");
        let read = browser.run_async(&script, vec![json!(batch)]);
        let pages = read.as_array().unwrap_or_else(|| panic!("{batch:?}: {read}"));
        for (path, page) in batch.iter().zip(pages).filter(|(_, page)| !page.is_null()) {
            crawl.add(path, page);
            for link in page["links"].as_array().unwrap().iter().map(|link| link.as_str().unwrap()) {
                let count = of_shape.entry(shape(link)).or_default();
                let most = if link.contains('?') { of_a_path_max.min(OF_A_QUERY_MAX) } else { of_a_path_max };
                if *count < most && known.insert(link.to_owned()) {
                    *count += 1;
                    open.push_back(link.to_owned());
                }
            }
        }
        assert!(crawl.paths.len() < PAGES_MAX, "{:#?}", crawl.paths);
    }
    crawl
}

/// Rules of axe-core whose outcome depends on the colours and the width of the screen.
const LAYOUT_RULES: [&str; 4] =
    ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"];

/// What axe-core finds on the page as it is: with all rules on a desk, with those of layout elsewhere.
fn violations(browser: &Browser, viewport: Viewport) -> Vec<String> {
    let rules = if viewport.name == DESKTOP.name { Value::Null } else { json!(LAYOUT_RULES) };
    let found = browser.run_async(
        "const options = { preload: false, resultTypes: ['violations'] }; \
         const which = given[0] ? { runOnly: given[0] } : { rules: { 'target-size': { enabled: true } } }; \
         const { violations } = await axe.run(document, { ...options, ...which }); \
         return violations.flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.html} ${node.failureSummary}`));",
        vec![rules],
    );
    assert!(found.is_array(), "{found}");
    found.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// Loads axe-core into the page.
fn load_axe(browser: &Browser) {
    let file = install_folder("ACTBOOK_TEST_NPM").join("node_modules/axe-core/axe.min.js");
    browser.run(&std::fs::read_to_string(file).unwrap(), vec![]);
}

/// How much wider than the screen the page is, in pixels, and the first element that sticks out.
fn overflow(browser: &Browser, viewport: Viewport) -> Option<String> {
    let widest = browser.run(
        "const limit = arguments[0]; \
         if (document.documentElement.scrollWidth <= limit) return null; \
         const out = [...document.querySelectorAll('main *')].find((one) => one.getBoundingClientRect().right > limit + 1); \
         return `${document.documentElement.scrollWidth} px wide: ${out?.outerHTML.slice(0, 200)}`;",
        vec![json!(viewport.width)],
    );
    widest.as_str().map(str::to_owned)
}

/// Two labels of a timeline's axis that lie on each other.
fn overlap(browser: &Browser) -> Option<String> {
    let found = browser.run(
        "const shown = [...document.querySelectorAll('.tl text')].filter((one) => one.checkVisibility()); \
         const labels = shown.map((one) => ({ text: one.textContent, ...one.getBoundingClientRect().toJSON() })); \
         labels.sort((one, other) => one.left - other.left); \
         const at = labels.findIndex((one, at) => one.right > labels[at + 1]?.left); \
         return at < 0 ? null : `${labels[at].text} lies on ${labels[at + 1].text}`;",
        vec![],
    );
    found.as_str().map(str::to_owned)
}

/// A file name for a page.
fn file_name(path: &str, viewport: Viewport) -> String {
    let name: String =
        path.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    format!("{name}-{}.png", viewport.name)
}

/// Looks at the page that is open in each of these viewports; what is wrong with it.
fn faults(browser: &Browser, path: &str, viewports: &[Viewport]) -> Vec<String> {
    let mut found = Vec::new();
    let pictures = screenshots::folder();
    load_axe(browser);
    for viewport in viewports {
        browser.show_as(*viewport);
        let name = viewport.name;
        found.extend(violations(browser, *viewport).iter().map(|one| format!("{path} {name}: {one}")));
        found.extend(overflow(browser, *viewport).map(|one| format!("{path} {name}: {one}")));
        found.extend(overlap(browser).map(|one| format!("{path} {name}: {one}")));
        if let Some(folder) = &pictures {
            std::fs::write(folder.join(file_name(path, *viewport)), browser.picture("png", 1.0, f64::MAX))
                .unwrap();
        }
    }
    found.extend(browser.problems().iter().map(|one| format!("{path}: {one}")));
    found
}

#[test]
fn every_page_is_accessible_quiet_and_as_wide_as_the_screen() {
    let (book, executions) = Book::with_executions();
    let browser = book.browser();
    let first = first_pages(&executions);
    let crawl = crawl(&browser, first.clone(), 1, "return [];");
    let paths = crawl.representative(first.len());
    let missing: Vec<_> =
        PAGES.iter().filter(|page| !paths.iter().any(|path| shape(path) == **page)).collect();
    assert!(missing.is_empty(), "{missing:?} of {paths:#?}");
    // Each width and each set of colours once; all four where they are pictured.
    let viewports = if screenshots::folder().is_some() { &VIEWPORTS[..] } else { &[DESKTOP, PHONE_DARK] };
    let mut found = Vec::new();
    for path in paths {
        browser.open(path);
        found.extend(faults(&browser, path, viewports));
    }
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n\n"));
}

/// What links lead to at least, as `shape` writes it.
const PAGES: [&str; 29] = [
    "/?",
    "/?other",
    "/api?",
    "/bulk?action=cancel&other",
    "/context?",
    "/executions/*/confirm?action=cancel",
    "/executions/*/confirm?action=undo",
    "/executions/*/rerun?",
    "/executions/*?",
    "/executions/*?step&view=graph",
    "/executions/*?step&view=journal",
    "/executions/*?step&view=steps",
    "/executions/*?step&view=timeline",
    "/journal?",
    "/login?",
    "/plans/*/diff?other",
    "/plans/*/edit?",
    "/plans/*?",
    "/plans/new?",
    "/plans?",
    "/questions?",
    "/settings?",
    "/stats?",
    "/tasks/*?",
    "/tasks?",
    "/templates/*?",
    "/templates?",
    "/tools/*/*?",
    "/tools?",
];

/// The pages from which links lead to all others, and those that nothing links to.
fn first_pages(executions: &Executions) -> Vec<String> {
    let Executions { blocked, running, session, plan, .. } = executions;
    let Executions { awaiting_approval, awaiting_agent, compensated, succeeded, .. } = executions;
    let mut pages: Vec<String> =
        ["/", "/login", "/tools/mail/send", "/bulk?action=cancel&all=1&plan=release-service"]
            .map(str::to_owned)
            .into();
    pages.push(format!("/plans/{plan}"));
    for id in [blocked, awaiting_approval, awaiting_agent, running, compensated, succeeded, session] {
        pages.push(format!("/executions/{id}"));
    }
    for view in ["graph", "timeline", "steps", "journal"] {
        pages.push(format!("/executions/{blocked}?view={view}&step=rollout"));
        pages.push(format!("/executions/{running}?view={view}"));
    }
    pages.extend(
        ["/?status=failed&plan!=weekly-report&since=24h", "/?search=nothing-is-called-so"].map(str::to_owned),
    );
    for action in ["undo", "cancel"] {
        pages.push(format!("/executions/{blocked}/confirm?action={action}"));
    }
    pages.push(format!("/executions/{session}/confirm?action=undo&from=c3"));
    pages
}

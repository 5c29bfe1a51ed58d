//! What surrounds every page: the navigation, who is signed in, how many questions wait, and how the reader wants
//! pages to look.

use axum::http::HeaderMap;

use super::markup::{Icon, grouped, icon};
use crate::error::Error;
use crate::web::WebState;
use crate::web::authentication::{SignedIn, cookie};

/// Open questions are counted up to this number.
const QUESTIONS_COUNTED_MAX: u64 = 1_000;

/// The cookie that keeps the display settings. Readable by the script, since it holds no secret.
pub const DISPLAY_COOKIE: &str = "actbook-display";

/// An area of the dashboard, as the navigation marks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    Executions,
    Questions,
    Plans,
    Tasks,
    Context,
    Templates,
    Tools,
    Statistics,
    Journal,
    Settings,
}

impl Area {
    /// All areas, in the order of the navigation.
    const ALL: [Self; 10] = [
        Self::Executions,
        Self::Questions,
        Self::Plans,
        Self::Tasks,
        Self::Context,
        Self::Templates,
        Self::Tools,
        Self::Statistics,
        Self::Journal,
        Self::Settings,
    ];
}

/// Which colours a page has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// As the system has it.
    #[default]
    System,
    Light,
    Dark,
}

/// How times are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeStyle {
    /// In the browser's time zone.
    #[default]
    Local,
    Utc,
    /// As an age: `4m ago`.
    Relative,
}

/// How the reader wants pages to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisplaySettings {
    pub theme: Theme,
    pub times: TimeStyle,
    /// Keys without a modifier do something (WCAG 2.1.4 asks for a switch).
    pub letter_keys: bool,
}

impl Theme {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// An unknown word means the system's colours.
    pub fn parse(word: &str) -> Self {
        [Self::Light, Self::Dark].into_iter().find(|theme| theme.as_str() == word).unwrap_or_default()
    }
}

impl TimeStyle {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Utc => "utc",
            Self::Relative => "relative",
        }
    }

    /// An unknown word means local times.
    pub fn parse(word: &str) -> Self {
        [Self::Utc, Self::Relative].into_iter().find(|style| style.as_str() == word).unwrap_or_default()
    }
}

impl DisplaySettings {
    /// The settings of the request's cookie; the defaults without one.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut words = cookie(headers, DISPLAY_COOKIE).unwrap_or_default().split('.');
        let mut word = || words.next().unwrap_or_default();
        Self { theme: Theme::parse(word()), times: TimeStyle::parse(word()), letter_keys: word() != "off" }
    }

    /// The cookie's value.
    pub fn to_cookie(self) -> String {
        let keys = if self.letter_keys { "on" } else { "off" };
        format!("{}.{}.{keys}", self.theme.as_str(), self.times.as_str())
    }
}

/// The frame of one page.
#[derive(Clone, Debug)]
pub struct Frame {
    pub title: String,
    pub area: Option<Area>,
    /// Questions that wait for a person.
    pub questions: usize,
    /// How many entries of the journal lists and figures lack; empty if none.
    pub behind: String,
    /// Who is signed in. `None` on the page that says how to sign in.
    pub who: Option<String>,
    pub role: String,
    pub display: DisplaySettings,
    /// The path that display settings lead back to.
    pub path: String,
}

impl Frame {
    /// The frame of a page for a person who is signed in.
    pub async fn load(
        state: &WebState,
        signed_in: &SignedIn,
        headers: &HeaderMap,
        area: Area,
        title: impl Into<String>,
    ) -> Result<Self, Error> {
        Ok(Self {
            title: title.into(),
            area: Some(area),
            behind: shown_behind(state.service.executions().behind().await?),
            questions: state.service.executions().count_questions(QUESTIONS_COUNTED_MAX).await? as usize,
            who: Some(signed_in.credential.name.clone()),
            role: signed_in.credential.role.to_string(),
            display: DisplaySettings::from_headers(headers),
            path: "/".to_owned(),
        })
    }

    /// The frame of a page that anybody may see.
    pub fn bare(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            area: None,
            behind: String::new(),
            questions: 0,
            who: None,
            role: String::new(),
            display: DisplaySettings { theme: Theme::System, times: TimeStyle::Local, letter_keys: true },
            path: "/".to_owned(),
        }
    }

    /// The colours, the times and the use of letter keys that a click on the quick switch leads to, each with its
    /// word.
    pub fn next_display(&self) -> [(&'static str, &'static str, &'static str); 3] {
        let theme = match self.display.theme {
            Theme::System => ("theme", "dark", "Colours: system"),
            Theme::Dark => ("theme", "light", "Colours: dark"),
            Theme::Light => ("theme", "system", "Colours: light"),
        };
        let times = match self.display.times {
            TimeStyle::Local => ("times", "utc", "Times: local"),
            TimeStyle::Utc => ("times", "relative", "Times: UTC"),
            TimeStyle::Relative => ("times", "local", "Times: relative"),
        };
        let keys = if self.display.letter_keys {
            ("keys", "off", "Letter keys: on")
        } else {
            ("keys", "on", "Letter keys: off")
        };
        [theme, times, keys]
    }

    /// The same frame, whose display settings lead back to this path.
    pub fn at(self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self }
    }

    /// The links of the navigation, in order.
    pub fn navigation(&self) -> Vec<NavigationItem> {
        let item = |area: Area| {
            let (path, name, word) = match area {
                Area::Executions => ("/", "list", "Executions"),
                Area::Questions => ("/questions", "inbox", "Questions"),
                Area::Plans => ("/plans", "plan", "Plans"),
                Area::Tasks => ("/tasks", "task", "Tasks"),
                Area::Context => ("/context", "note", "Context"),
                Area::Templates => ("/templates", "grid", "Templates"),
                Area::Tools => ("/tools", "tool", "Tools"),
                Area::Statistics => ("/stats", "chart", "Statistics"),
                Area::Journal => ("/journal", "book", "Journal"),
                Area::Settings => ("/settings", "cog", "Settings"),
            };
            NavigationItem {
                path,
                icon: icon(name),
                word,
                count: if area == Area::Questions { self.questions } else { 0 },
                is_current: self.area == Some(area),
                begins_group: area == Area::Tools,
            }
        };
        Area::ALL.map(item).into()
    }
}

/// The number of entries that lists lack; empty if none.
pub fn shown_behind(entries: u64) -> String {
    if entries == 0 { String::new() } else { grouped(entries) }
}

/// A link of the navigation.
#[derive(Debug)]
pub struct NavigationItem {
    pub path: &'static str,
    pub icon: Icon,
    pub word: &'static str,
    /// Shown behind the word unless it is 0.
    pub count: usize,
    pub is_current: bool,
    /// A gap stands before it.
    pub begins_group: bool,
}

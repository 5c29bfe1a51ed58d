//! The drawing as SVG that stands alone: no script, no font, no style from elsewhere.

use super::layout::{Layout, Point, place};
use super::{Back, Drawing, Edge, Kind, Node};
use crate::cli::table::{cut, width};

const MARGIN: f64 = 28.0;
const HEAD: f64 = 46.0;
const FOOT: f64 = 44.0;
const PAD_X: f64 = 16.0;
const LINE: f64 = 19.0;
const BOX_MIN: f64 = 170.0;
/// How wide a sign is drawn, on average, at the sizes used here.
const SIGN: f64 = 7.2;
const TEXT_MAX: usize = 40;
const TITLE_MAX: usize = 120;
const NO_RETURN_WIDTH: f64 = 128.0;

const STYLE: &str = "\
text{font-family:ui-sans-serif,system-ui,'Segoe UI','DejaVu Sans',sans-serif;font-size:12.5px;fill:#2b3440}\
.title{font-size:17px;font-weight:600;fill:#18202b}.sub{fill:#667085}\
.id{font-size:14px;font-weight:600;fill:#18202b}.does{fill:#475467}\
.when{fill:#35618e}.box{stroke-width:1.4}.maybe{stroke-dasharray:5 4}.whole{fill:#effaf3;stroke:#57a777}.reads{fill:#f5f7fa;stroke:#a3aebd}\
.partly{fill:#fff8e6;stroke:#d19a2e}.stays{fill:#fdf0ef;stroke:#d4584c}\
.bar-whole{fill:#57a777}.bar-reads{fill:#a3aebd}.bar-partly{fill:#d19a2e}.bar-stays{fill:#d4584c}\
.t-whole{fill:#2e7d4f}.t-reads{fill:#667085}.t-partly{fill:#96660f}.t-stays{fill:#b3372b}\
.halo{fill:none;stroke:#d4584c;stroke-width:1.6;stroke-dasharray:6 4}\
.badge{fill:#d4584c}.badge-t{fill:#ffffff;font-size:11px;font-weight:600}\
.ask{fill:#fff3cd;stroke:#d19a2e}.ask-t{fill:#7a5307;font-size:11px;font-weight:600}\
.need{fill:none;stroke:#5b6b82;stroke-width:1.6}.status{fill:none;stroke:#5b6b82;stroke-width:1.4;stroke-dasharray:6 4}\
.then{fill:none;stroke:#c3cad5;stroke-width:1.4;stroke-dasharray:2 4}";

pub fn draw(drawing: &Drawing) -> String {
    let sizes: Vec<(f64, f64)> = drawing.nodes.iter().map(size).collect();
    let edges = drawing.edges();
    let arrows: Vec<(usize, usize)> = edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let layout = place(&sizes, &arrows, &drawing.waves);
    let legend = legend_width();
    let whole_width = layout.width.max(signs_width(&headline(drawing), 9.0)).max(legend) + 2.0 * MARGIN;
    let whole_height = layout.height + HEAD + FOOT + 2.0 * MARGIN;
    let left = (whole_width - layout.width) / 2.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{whole_width:.0}\" height=\"{whole_height:.0}\" \
         viewBox=\"0 0 {whole_width:.0} {whole_height:.0}\" role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n{ARROWS}\n",
        escaped(&drawing.name)
    );
    svg.push_str("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
    svg.push_str(&head(drawing));
    svg.push_str(&format!("<g transform=\"translate({left:.1} {:.1})\">\n", MARGIN + HEAD));
    svg.push_str(&body(drawing, &layout, &sizes, &edges));
    svg.push_str("</g>\n");
    svg.push_str(&legend_at(MARGIN, whole_height - MARGIN - 8.0));
    svg.push_str("</svg>\n");
    svg
}

const ARROWS: &str = "<defs>\
<marker id=\"need\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
<path d=\"M0 0L10 5L0 10z\" fill=\"#5b6b82\"/></marker>\
<marker id=\"then\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
<path d=\"M0 0L10 5L0 10z\" fill=\"#c3cad5\"/></marker></defs>";

fn head(drawing: &Drawing) -> String {
    let title = text(MARGIN, MARGIN + 6.0, "title", &cut(&drawing.name, TITLE_MAX));
    let headline = drawing.headline();
    let rest = headline.strip_prefix(&drawing.name).unwrap_or(&headline).trim_start_matches([':', ' ']);
    title + &text(MARGIN, MARGIN + 26.0, "sub", rest)
}

/// As long as the title may be drawn.
fn headline(drawing: &Drawing) -> String {
    cut(&drawing.headline(), TITLE_MAX)
}

fn body(drawing: &Drawing, layout: &Layout, sizes: &[(f64, f64)], edges: &[Edge]) -> String {
    let mut svg = String::new();
    for (edge, way) in edges.iter().zip(&layout.arrows) {
        svg.push_str(&arrow(edge.kind, way));
    }
    for ((node, middle), size) in drawing.nodes.iter().zip(&layout.boxes).zip(sizes) {
        svg.push_str(&boxed(node, *middle, *size));
    }
    svg
}

fn lines(node: &Node) -> Vec<(String, String)> {
    let mut lines = vec![("id".to_owned(), cut(&node.id, TEXT_MAX))];
    lines.extend(node.name.iter().map(|name| ("does".to_owned(), cut(name, TEXT_MAX))));
    lines.push(("sub".to_owned(), cut(&node.does, TEXT_MAX)));
    lines.push((format!("t-{}", class(node)), cut(&node.back.words(), TEXT_MAX)));
    lines.extend(node.when.iter().map(|when| ("when".to_owned(), cut(&format!("when {when}"), TEXT_MAX))));
    lines
}

fn size(node: &Node) -> (f64, f64) {
    let lines = lines(node);
    let widest = lines.iter().map(|(_, line)| signs_width(line, SIGN)).fold(BOX_MIN - 2.0 * PAD_X, f64::max);
    let badge = if node.point_of_no_return { signs_width(&node.id, 9.0) + NO_RETURN_WIDTH } else { 0.0 };
    (widest.max(badge) + 2.0 * PAD_X, lines.len() as f64 * LINE + 18.0)
}

fn signs_width(text: &str, sign: f64) -> f64 {
    width(text) as f64 * sign
}

fn boxed(node: &Node, middle: Point, (width, height): (f64, f64)) -> String {
    let (left, top) = (middle.x - width / 2.0, middle.y - height / 2.0);
    let class = class(node);
    let radius = if node.by_agent { 18.0 } else { 8.0 };
    let maybe = if node.when.is_some() { " maybe" } else { "" };
    let mut svg = format!(
        "<g><title>{}</title><rect class=\"box {class}{maybe}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius}\"/>",
        escaped(&tooltip(node))
    );
    if !node.by_agent {
        svg.push_str(&format!(
            "<rect class=\"bar-{class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"4\" height=\"{:.1}\" rx=\"2\"/>",
            top + 8.0,
            height - 16.0
        ));
    }
    for (index, (class, line)) in lines(node).iter().enumerate() {
        svg.push_str(&text(left + PAD_X, top + 22.0 + index as f64 * LINE, class, line));
    }
    if node.point_of_no_return {
        svg.push_str(&no_return(left, top, width, height));
    }
    if node.approval {
        svg.push_str(&badge("ask", left + width - 74.0, top + height - 9.0, 64.0, "asks first"));
    }
    svg + "</g>\n"
}

/// What the box may have had to cut.
fn tooltip(node: &Node) -> String {
    match &node.when {
        Some(when) => format!("{}, when {when}", node.does),
        None => node.does.clone(),
    }
}

fn no_return(left: f64, top: f64, width: f64, height: f64) -> String {
    let halo = format!(
        "<rect class=\"halo\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"12\"/>",
        left - 6.0,
        top - 6.0,
        width + 12.0,
        height + 12.0
    );
    halo + &badge(
        "badge",
        left + width - NO_RETURN_WIDTH - 10.0,
        top + 9.0,
        NO_RETURN_WIDTH,
        "point of no return",
    )
}

fn badge(class: &str, left: f64, top: f64, width: f64, words: &str) -> String {
    format!(
        "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width}\" height=\"18\" rx=\"9\"/>\
         <text class=\"{class}-t\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{words}</text>",
        left + width / 2.0,
        top + 13.0
    )
}

fn arrow(kind: Kind, way: &[Point]) -> String {
    let (class, head) = match kind {
        Kind::Need => ("need", "need"),
        Kind::Status => ("status", "need"),
        Kind::Then => ("then", "then"),
    };
    format!("<path class=\"{class}\" d=\"{}\" marker-end=\"url(#{head})\"/>\n", curve(way))
}

/// A smooth way through the points: straight down at both ends, rounded between.
fn curve(way: &[Point]) -> String {
    let Some((first, rest)) = way.split_first() else { return String::new() };
    let mut path = format!("M{:.1} {:.1}", first.x, first.y);
    let mut from = *first;
    for to in rest {
        let bend = (to.y - from.y) / 2.0;
        path.push_str(&format!(
            " C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}",
            from.x,
            from.y + bend,
            to.x,
            to.y - bend,
            to.x,
            to.y
        ));
        from = *to;
    }
    path
}

fn class(node: &Node) -> &'static str {
    match node.back {
        Back::Whole(_) => "whole",
        Back::ReadOnly => "reads",
        Back::Partly(_) => "partly",
        Back::None => "stays",
    }
}

const LEGEND: [(&str, &str); 4] = [
    ("whole", "can be undone"),
    ("reads", "reads only"),
    ("partly", "undone in part"),
    ("stays", "cannot be undone"),
];

fn legend_width() -> f64 {
    LEGEND.iter().map(|(_, words)| signs_width(words, SIGN) + 40.0).sum()
}

fn legend_at(mut left: f64, bottom: f64) -> String {
    let mut svg = String::new();
    for (class, words) in LEGEND {
        svg.push_str(&format!(
            "<rect class=\"box {class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"14\" height=\"14\" rx=\"4\"/>",
            bottom - 11.5
        ));
        svg.push_str(&text(left + 20.0, bottom, "sub", words));
        left += signs_width(words, SIGN) + 40.0;
    }
    svg
}

fn text(left: f64, bottom: f64, class: &str, words: &str) -> String {
    format!("<text class=\"{class}\" x=\"{left:.1}\" y=\"{bottom:.1}\">{}</text>\n", escaped(words))
}

/// As XML text: its own signs escaped, and what XML does not allow at all left out.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{FFFE}' | '\u{FFFF}' => {}
            other if other.is_control() => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}

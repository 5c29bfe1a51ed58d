//! Where boxes and arrows lie. The only file that knows which library places them.

use dagre::graph::{Graph, GraphOptions};
use dagre::{EdgeLabel, LayoutOptions, NodeLabel};

const GAP_X: f64 = 36.0;
const GAP_Y: f64 = 46.0;
/// Beyond this many boxes careful placing takes too long, and nobody reads the picture for its beauty.
const CAREFUL_MAX: usize = 400;
/// A wider drawing is wrapped: a wave of many steps takes several rows.
const WIDTH_MAX: f64 = 2_000.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// The middle of every box, the way of every arrow, and the whole size.
#[derive(Debug)]
pub struct Layout {
    pub boxes: Vec<Point>,
    pub arrows: Vec<Vec<Point>>,
    pub width: f64,
    pub height: f64,
}

/// Sizes of boxes, arrows between them, and the waves in which they may be put down at worst.
pub fn place(sizes: &[(f64, f64)], arrows: &[(usize, usize)], waves: &[Vec<usize>]) -> Layout {
    let careful = if sizes.len() <= CAREFUL_MAX { carefully(sizes, arrows) } else { None };
    let careful = careful.filter(|layout| layout.width <= WIDTH_MAX);
    careful.unwrap_or_else(|| by_waves(sizes, arrows, waves))
}

fn carefully(sizes: &[(f64, f64)], arrows: &[(usize, usize)]) -> Option<Layout> {
    let options = GraphOptions { directed: true, multigraph: false, compound: false };
    let mut graph: Graph<NodeLabel, EdgeLabel> = Graph::with_options(options);
    for (index, (width, height)) in sizes.iter().enumerate() {
        let label = NodeLabel { width: *width, height: *height, ..NodeLabel::default() };
        graph.set_node(index.to_string(), Some(label));
    }
    for (from, to) in arrows {
        graph.set_edge(from.to_string(), to.to_string(), Some(EdgeLabel::default()), None);
    }
    let options = LayoutOptions { nodesep: GAP_X, ranksep: GAP_Y, edgesep: 16.0, ..LayoutOptions::default() };
    dagre::layout(&mut graph, Some(options));
    let middle = |index: usize| {
        let node = graph.node(&index.to_string())?;
        Some(Point { x: node.x?, y: node.y? })
    };
    let boxes: Vec<Point> = (0..sizes.len()).map(middle).collect::<Option<_>>()?;
    let way = |(from, to): &(usize, usize)| {
        let label = graph.edge(&from.to_string(), &to.to_string(), None)?;
        let inner = label.points.iter().map(|point| Point { x: point.x, y: point.y });
        let inner: Vec<Point> = inner.skip(1).take(label.points.len().saturating_sub(2)).collect();
        Some(between(&boxes, sizes, *from, *to, inner))
    };
    let arrows = arrows.iter().map(way).collect::<Option<_>>()?;
    Some(framed(boxes, arrows, sizes))
}

/// Leaves at the bottom of one box and arrives at the top of the other.
fn between(boxes: &[Point], sizes: &[(f64, f64)], from: usize, to: usize, inner: Vec<Point>) -> Vec<Point> {
    let mut way = vec![Point { x: boxes[from].x, y: boxes[from].y + sizes[from].1 / 2.0 }];
    way.extend(inner);
    way.push(Point { x: boxes[to].x, y: boxes[to].y - sizes[to].1 / 2.0 });
    way
}

fn by_waves(sizes: &[(f64, f64)], arrows: &[(usize, usize)], waves: &[Vec<usize>]) -> Layout {
    let mut boxes = vec![Point { x: 0.0, y: 0.0 }; sizes.len()];
    let mut top = 0.0;
    for wave in waves {
        for row in rows(sizes, wave) {
            let tallest = row.iter().map(|index| sizes[*index].1).fold(0.0, f64::max);
            let mut left = 0.0;
            for index in row {
                boxes[*index] = Point { x: left + sizes[*index].0 / 2.0, y: top + tallest / 2.0 };
                left += sizes[*index].0 + GAP_X;
            }
            top += tallest + GAP_Y / 2.0;
        }
        top += GAP_Y / 2.0;
    }
    let arrows = arrows.iter().map(|(from, to)| between(&boxes, sizes, *from, *to, Vec::new())).collect();
    framed(boxes, arrows, sizes)
}

/// A wave cut into rows, each as wide as the drawing may be.
fn rows<'a>(sizes: &[(f64, f64)], wave: &'a [usize]) -> Vec<&'a [usize]> {
    let (mut rows, mut start, mut used) = (Vec::new(), 0, 0.0);
    for (place, index) in wave.iter().enumerate() {
        let width = sizes[*index].0;
        if place > start && used + width > WIDTH_MAX {
            rows.push(&wave[start..place]);
            (start, used) = (place, 0.0);
        }
        used += width + GAP_X;
    }
    rows.push(&wave[start..]);
    rows
}

/// Moved so that everything begins at zero.
fn framed(mut boxes: Vec<Point>, mut arrows: Vec<Vec<Point>>, sizes: &[(f64, f64)]) -> Layout {
    let corners = boxes.iter().zip(sizes).flat_map(|(middle, (width, height))| {
        [(middle.x - width / 2.0, middle.y - height / 2.0), (middle.x + width / 2.0, middle.y + height / 2.0)]
    });
    let points = arrows.iter().flatten().map(|point| (point.x, point.y));
    let all: Vec<(f64, f64)> = corners.chain(points).collect();
    let least = |pick: fn(&(f64, f64)) -> f64| all.iter().map(pick).fold(f64::INFINITY, f64::min);
    let most = |pick: fn(&(f64, f64)) -> f64| all.iter().map(pick).fold(f64::NEG_INFINITY, f64::max);
    let (left, top) = (least(|point| point.0), least(|point| point.1));
    let (right, bottom) = (most(|point| point.0), most(|point| point.1));
    for point in boxes.iter_mut().chain(arrows.iter_mut().flatten()) {
        point.x -= left;
        point.y -= top;
    }
    Layout { boxes, arrows, width: right - left, height: bottom - top }
}

//! Computes where boxes and arrows lie. The only file that knows the layout library.

use dagre::graph::{Graph, GraphOptions};
use dagre::{EdgeLabel, LayoutOptions, NodeLabel};

/// Horizontal distance between the boxes of a row, in SVG units.
const BOX_GAP: f64 = 36.0;
/// Vertical distance between the rows of boxes in the drawing of a plan, in SVG units.
const ROW_GAP: f64 = 46.0;
/// Beyond this many boxes the layout library takes too long.
const LIBRARY_BOXES_MAX: usize = 400;
/// A wider drawing is laid out by waves, and a wave of many steps is wrapped into several rows.
const WIDTH_MAX: f64 = 2_000.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// The centre of every box, the points of every arrow, and the size of the whole.
#[derive(Debug)]
pub struct Layout {
    pub boxes: Vec<Point>,
    pub arrows: Vec<Vec<Point>>,
    pub width: f64,
    pub height: f64,
}

/// Places boxes of these sizes and the arrows between them with the layout library; or each of `waves` (boxes
/// that depend on earlier waves alone) in rows of its own, if there are too many boxes or the result is too
/// wide.
pub fn compute_layout(sizes: &[(f64, f64)], arrows: &[(usize, usize)], waves: &[Vec<usize>]) -> Layout {
    let layout = if sizes.len() <= LIBRARY_BOXES_MAX { layout_by_library(sizes, arrows) } else { None };
    let layout = layout.filter(|layout| layout.width <= WIDTH_MAX);
    layout.unwrap_or_else(|| layout_by_waves(sizes, arrows, waves))
}

/// A layout by the library; `None` if it left a box or an arrow without a place.
fn layout_by_library(sizes: &[(f64, f64)], arrows: &[(usize, usize)]) -> Option<Layout> {
    let options = GraphOptions { directed: true, multigraph: false, compound: false };
    let mut graph: Graph<NodeLabel, EdgeLabel> = Graph::with_options(options);
    for (index, (width, height)) in sizes.iter().enumerate() {
        let label = NodeLabel { width: *width, height: *height, ..NodeLabel::default() };
        graph.set_node(index.to_string(), Some(label));
    }
    for (from, to) in arrows {
        graph.set_edge(from.to_string(), to.to_string(), Some(EdgeLabel::default()), None);
    }
    let options =
        LayoutOptions { nodesep: BOX_GAP, ranksep: ROW_GAP, edgesep: 16.0, ..LayoutOptions::default() };
    dagre::layout(&mut graph, Some(options));
    let centre = |index: usize| {
        let node = graph.node(&index.to_string())?;
        Some(Point { x: node.x?, y: node.y? })
    };
    let boxes: Vec<Point> = (0..sizes.len()).map(centre).collect::<Option<_>>()?;
    let path = |(from, to): &(usize, usize)| {
        let label = graph.edge(&from.to_string(), &to.to_string(), None)?;
        let inner = label.points.iter().map(|point| Point { x: point.x, y: point.y });
        let inner: Vec<Point> = inner.skip(1).take(label.points.len().saturating_sub(2)).collect();
        Some(arrow_path(&boxes, sizes, *from, *to, inner))
    };
    let arrows = arrows.iter().map(path).collect::<Option<_>>()?;
    Some(shift_to_origin(boxes, arrows, sizes))
}

/// The points of an arrow: from the bottom of one box, through `inner`, to the top of the other.
fn arrow_path(
    boxes: &[Point],
    sizes: &[(f64, f64)],
    from: usize,
    to: usize,
    inner: Vec<Point>,
) -> Vec<Point> {
    let mut path = vec![Point { x: boxes[from].x, y: boxes[from].y + sizes[from].1 / 2.0 }];
    path.extend(inner);
    path.push(Point { x: boxes[to].x, y: boxes[to].y - sizes[to].1 / 2.0 });
    path
}

/// Puts the waves below each other, each in one or more rows, with straight arrows.
fn layout_by_waves(sizes: &[(f64, f64)], arrows: &[(usize, usize)], waves: &[Vec<usize>]) -> Layout {
    let mut boxes = vec![Point { x: 0.0, y: 0.0 }; sizes.len()];
    let mut top = 0.0;
    for wave in waves {
        for row in wrap_wave(sizes, wave) {
            let tallest = row.iter().map(|index| sizes[*index].1).fold(0.0, f64::max);
            let mut left = 0.0;
            for index in row {
                boxes[*index] = Point { x: left + sizes[*index].0 / 2.0, y: top + tallest / 2.0 };
                left += sizes[*index].0 + BOX_GAP;
            }
            top += tallest + ROW_GAP / 2.0;
        }
        top += ROW_GAP / 2.0;
    }
    let arrows = arrows.iter().map(|(from, to)| arrow_path(&boxes, sizes, *from, *to, Vec::new())).collect();
    shift_to_origin(boxes, arrows, sizes)
}

/// A wave cut into rows that are no wider than the drawing may be.
fn wrap_wave<'a>(sizes: &[(f64, f64)], wave: &'a [usize]) -> Vec<&'a [usize]> {
    let (mut rows, mut start, mut used) = (Vec::new(), 0, 0.0);
    for (position, index) in wave.iter().enumerate() {
        let width = sizes[*index].0;
        if position > start && used + width > WIDTH_MAX {
            rows.push(&wave[start..position]);
            (start, used) = (position, 0.0);
        }
        used += width + BOX_GAP;
    }
    rows.push(&wave[start..]);
    rows
}

/// Shifts everything so that it begins at zero, and computes the size of the whole.
fn shift_to_origin(mut boxes: Vec<Point>, mut arrows: Vec<Vec<Point>>, sizes: &[(f64, f64)]) -> Layout {
    let corners = boxes.iter().zip(sizes).flat_map(|(centre, (width, height))| {
        [(centre.x - width / 2.0, centre.y - height / 2.0), (centre.x + width / 2.0, centre.y + height / 2.0)]
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

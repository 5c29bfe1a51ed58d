//! Stacks the steps of a wide fan-out into one box, so that the drawing of a long plan stays readable: steps of
//! the same wave that do the same work after the same steps.

use std::collections::BTreeMap;

use super::{EdgeKind, PlanGraph};

/// Beyond this many steps, equal ones are stacked.
const STACKED_BEYOND: usize = 40;

/// The boxes of a drawing, each with the nodes that it stands for, and the arrows between them.
#[derive(Debug)]
pub struct StackedGraph {
    /// Indices of nodes; at least one in each box.
    pub boxes: Vec<Vec<usize>>,
    pub arrows: Vec<(usize, usize, EdgeKind)>,
    /// Indices of boxes, wave by wave.
    pub waves: Vec<Vec<usize>>,
}

/// What steps have in common that are drawn as one box: their work and undo, and the boxes they come after.
type StackKey<'a> = (&'a str, bool, String, Vec<usize>);

impl StackedGraph {
    /// The boxes of this graph. One for each step, unless there are too many steps.
    pub fn of(graph: &PlanGraph) -> Self {
        let stacks = graph.nodes.len() > STACKED_BEYOND;
        let mut box_of = vec![0; graph.nodes.len()];
        let (mut boxes, mut waves): (Vec<Vec<usize>>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
        for wave in &graph.waves {
            let mut known: BTreeMap<StackKey<'_>, usize> = BTreeMap::new();
            let first = boxes.len();
            for index in wave {
                let node = &graph.nodes[*index];
                let mut after: Vec<usize> = node.needs.iter().map(|need| box_of[need.step]).collect();
                after.sort_unstable();
                after.dedup();
                let key = (node.does.as_str(), node.point_of_no_return, node.undo.label(), after);
                let place = *known.entry(key).or_insert(boxes.len());
                let place = if stacks { place } else { boxes.len() };
                if place == boxes.len() {
                    boxes.push(Vec::new());
                }
                boxes[place].push(*index);
                box_of[*index] = place;
            }
            waves.push((first..boxes.len()).collect());
        }
        Self { arrows: arrows_between(graph, &box_of), boxes, waves }
    }
}

/// The arrows between boxes, each once; none within a box.
fn arrows_between(graph: &PlanGraph, box_of: &[usize]) -> Vec<(usize, usize, EdgeKind)> {
    let mut arrows: BTreeMap<(usize, usize), EdgeKind> = BTreeMap::new();
    for edge in graph.edges() {
        let (from, to) = (box_of[edge.from], box_of[edge.to]);
        if from != to {
            arrows.entry((from, to)).or_insert(edge.kind);
        }
    }
    arrows.into_iter().map(|((from, to), kind)| (from, to, kind)).collect()
}

//! Durations and how often each occurred, in a few bytes, from which exact percentiles are read.

use std::collections::BTreeMap;

use super::Error;

/// More different durations than this are rounded to three digits, which keeps a row small.
const DISTINCT_MAX: usize = 4096;

/// How often each duration occurred. Counts may be negative in a difference of two histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: BTreeMap<i64, i64>,
    /// There were more than `DISTINCT_MAX` durations: each stands for those with the same three first digits.
    rounded: bool,
}

impl Histogram {
    /// Adds a duration `n` times; a negative `n` takes it away.
    pub fn add(&mut self, ms: i64, n: i64) {
        let ms = if self.rounded { round_to_three_digits(ms) } else { ms };
        let count = self.counts.entry(ms).or_default();
        *count += n;
        if *count == 0 {
            self.counts.remove(&ms);
        }
        if self.counts.len() > DISTINCT_MAX && !self.rounded {
            self.round();
        }
    }

    /// Adds all durations of another histogram, each `times` times.
    pub fn merge(&mut self, other: &Histogram, times: i64) {
        if other.rounded && !self.rounded {
            self.round();
        }
        other.counts.iter().for_each(|(ms, n)| self.add(*ms, n * times));
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The nearest-rank percentile. None: the histogram is empty.
    pub fn percentile(&self, percent: i64) -> Option<i64> {
        let size: i64 = self.counts.values().sum();
        let mut rank = 0;
        self.counts.iter().find_map(|(ms, n)| {
            rank += n;
            (rank * 100 >= size * percent).then_some(*ms)
        })
    }

    /// Rounds all durations, once there are too many different ones.
    fn round(&mut self) {
        self.rounded = true;
        for (ms, n) in std::mem::take(&mut self.counts) {
            self.add(ms, n);
        }
    }

    /// The bytes that `decode` reads: a flag, then for each duration its distance to the one before and its
    /// count. Empty for an empty histogram.
    pub fn encode(&self) -> Vec<u8> {
        if self.counts.is_empty() {
            return Vec::new();
        }
        let mut bytes = vec![u8::from(self.rounded)];
        let mut last = 0;
        for (ms, n) in &self.counts {
            push_varint(&mut bytes, ms - last);
            push_varint(&mut bytes, *n);
            last = *ms;
        }
        bytes
    }

    /// Reads the bytes of `encode`. `Err`: they are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let Some((flag, mut rest)) = bytes.split_first() else { return Ok(Self::default()) };
        let mut counts = BTreeMap::new();
        let mut last = 0;
        while !rest.is_empty() {
            last += take_varint(&mut rest)?;
            counts.insert(last, take_varint(&mut rest)?);
        }
        Ok(Self { counts, rounded: *flag == 1 })
    }
}

/// The duration with all but its first three digits set to zero.
fn round_to_three_digits(ms: i64) -> i64 {
    let mut unit = 1;
    while ms.unsigned_abs() / unit >= 1000 {
        unit *= 10;
    }
    ms - ms % unit as i64
}

/// Appends a number, seven bits a byte, the sign in the lowest bit.
fn push_varint(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// Takes a number of `push_varint` off the front. `Err`: the bytes end within it, or it is too long.
fn take_varint(bytes: &mut &[u8]) -> Result<i64, Error> {
    let damaged = || Error::Failed("a row of statistics is damaged; run `actbook rebuild`".into());
    let (mut number, mut shift) = (0_u64, 0);
    loop {
        let (byte, rest) = bytes.split_first().ok_or_else(damaged)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift).ok_or_else(damaged)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Ok((number >> 1) as i64 ^ -((number & 1) as i64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_histogram_decodes_to_itself() {
        let mut histogram = Histogram::default();
        for ms in [-5, 0, 1, 1, 130, 7_200_000, i64::from(i32::MAX)] {
            histogram.add(ms, 1);
        }
        assert_eq!(Histogram::decode(&histogram.encode()).unwrap(), histogram);
        assert_eq!(histogram.percentile(50), Some(1));
        assert_eq!(histogram.percentile(99), Some(i64::from(i32::MAX)));
        assert_eq!(Histogram::default().percentile(50), None);
    }

    #[test]
    fn rounding_does_not_depend_on_the_order() {
        let durations: Vec<i64> = (0..6000).map(|number| 10_000 + number * 7).collect();
        let mut forward = Histogram::default();
        durations.iter().for_each(|ms| forward.add(*ms, 1));
        let mut merged = Histogram::default();
        for half in durations.rchunks(2500) {
            let mut part = Histogram::default();
            half.iter().for_each(|ms| part.add(*ms, 1));
            merged.merge(&part, 1);
        }
        assert_eq!(merged, forward);
        assert_eq!(forward.percentile(50), Some(30_900));
    }
}

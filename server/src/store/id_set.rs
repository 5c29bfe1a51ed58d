//! A set of the ids within one stretch of 65,536: offsets while they are few, a bitmap once they are many.

use super::Error;

/// Ids in one stretch.
const STRETCH_IDS: u64 = 1 << 16;
const WORDS: usize = STRETCH_IDS as usize / 64;
const BITMAP_BYTES: usize = WORDS * 8;

/// The stretch that an id is in.
pub fn stretch_of(id: u64) -> u64 {
    id / STRETCH_IDS
}

/// The first id of a stretch.
pub fn first_id(stretch: u64) -> u64 {
    stretch * STRETCH_IDS
}

/// A set of offsets within one stretch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdSet(Box<[u64]>);

impl Default for IdSet {
    fn default() -> Self {
        Self(vec![0; WORDS].into())
    }
}

impl IdSet {
    /// Adds an id by its offset in the stretch. False: it was there.
    pub fn insert(&mut self, id: u64) -> bool {
        let offset = (id % STRETCH_IDS) as usize;
        let bit = 1 << (offset % 64);
        let is_new = self.0[offset / 64] & bit == 0;
        self.0[offset / 64] |= bit;
        is_new
    }

    /// Adds the ids of another set of the same stretch.
    pub fn unite(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    pub fn intersect(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }

    pub fn subtract(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= !other);
    }

    /// The ids of the set, the highest first, for the set of this stretch.
    pub fn descending(&self, stretch: u64) -> impl Iterator<Item = u64> {
        let offsets = self.0.iter().enumerate().rev().flat_map(|(index, word)| {
            let bits = (0..64).rev().filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| index as u64 * 64 + bit)
        });
        offsets.map(move |offset| first_id(stretch) + offset)
    }

    /// Sorted offsets of two bytes each, or a bitmap if that is shorter.
    pub fn encode(&self) -> Vec<u8> {
        let count: u32 = self.0.iter().map(|word| word.count_ones()).sum();
        if count as usize * 2 >= BITMAP_BYTES {
            return self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        }
        let mut offsets: Vec<u16> = self.descending(0).map(|offset| offset as u16).collect();
        offsets.reverse();
        offsets.into_iter().flat_map(u16::to_le_bytes).collect()
    }

    /// Reads the bytes of `encode`. `Err`: they are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut set = Self::default();
        if bytes.len() == BITMAP_BYTES {
            let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            set.0.iter_mut().zip(words).for_each(|(word, read)| *word = read);
            return Ok(set);
        }
        let (offsets, rest) = bytes.as_chunks();
        if !rest.is_empty() {
            return Err(Error::Failed("a list of executions is damaged; run `actbook rebuild`".into()));
        }
        for offset in offsets {
            set.insert(u64::from(u16::from_le_bytes(*offset)));
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_set_decodes_to_itself() {
        for step in [1, 2, 15, 16, 17, 4000, 70_000] {
            let mut set = IdSet::default();
            let ids: Vec<u64> = (first_id(3)..first_id(4)).step_by(step).collect();
            ids.iter().for_each(|id| assert!(set.insert(*id)));
            assert!(!set.insert(ids[0]));
            let decoded = IdSet::decode(&set.encode()).unwrap();
            assert_eq!(decoded, set);
            assert!(decoded.descending(3).eq(ids.into_iter().rev()), "every {step}");
        }
        assert!(IdSet::decode(&[1]).is_err());
    }
}

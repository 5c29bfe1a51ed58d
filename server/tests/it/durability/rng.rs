//! Seeded random numbers: every run prints its seed, and the seed repeats the run.

/// SplitMix64: small, and random enough to choose faults.
pub struct SeededRng(u64);

impl SeededRng {
    /// The seed comes from `ACTBOOK_SEED`, else from the clock; either way it is printed.
    pub fn from_env(test: &str) -> Self {
        let given = std::env::var("ACTBOOK_SEED").ok().map(|seed| seed.parse().expect("a seed is a number"));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let seed = given.unwrap_or(u64::from(now.subsec_nanos()));
        eprintln!("{test}: ACTBOOK_SEED={seed}");
        Self(seed)
    }

    /// The generator of a schedule that its seed repeats.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in `0..limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// True with probability 1 in `n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

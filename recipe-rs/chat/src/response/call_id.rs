//! Tool-call ids, and the outside world they need.

/// Clock and chance, supplied by the caller.
pub trait Environment: Send + Sync {
    /// Seconds since the Unix epoch.
    fn unix_seconds(&mut self) -> u64;
    /// 64 uniformly random bits.
    fn random_bits(&mut self) -> u64;
}

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// `call_{index}_{ET_}{20 letters or digits}{4 digits}`; `ET_` marks a call without reasoning before it in
/// thinking mode.
pub(crate) fn call_id(
    index: usize,
    without_reasoning: bool,
    environment: &mut dyn Environment,
) -> String {
    let mut id = format!("call_{index:02}_");
    if without_reasoning {
        id.push_str("ET_");
    }
    for _ in 0..20 {
        let n = environment.random_bits() % ALPHABET.len() as u64;
        id.push(ALPHABET[n as usize] as char);
    }
    let n = environment.random_bits() % 10_000;
    id.push_str(&format!("{n:04}"));
    id
}

//! Big-endian numbers and lists of things that tell their own length.

use crate::Refusal;

/// Reads from the front of octets; when they end too soon, that is one refusal.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    short: Refusal,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(octets: &'a [u8], short: Refusal) -> Self {
        Self { rest: octets, short }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) const fn len(&self) -> usize {
        self.rest.len()
    }

    /// All that is left.
    pub(crate) fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn take(&mut self, octets: usize) -> Result<&'a [u8], Refusal> {
        let (taken, rest) = self.rest.split_at_checked(octets).ok_or(self.short)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(self.short)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn skip(&mut self, octets: usize) -> Result<(), Refusal> {
        self.take(octets).map(drop)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Refusal> {
        self.array::<1>().map(|[octet]| octet)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Refusal> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Refusal> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Refusal> {
        self.array().map(u64::from_be_bytes)
    }

    /// Text in a field of so many octets, up to the first zero.
    pub(crate) fn text(&mut self, octets: usize) -> Result<String, Refusal> {
        let field = self.take(octets)?;
        let end = field.iter().position(|octet| *octet == 0).unwrap_or(octets);
        Ok(String::from_utf8_lossy(field.get(..end).unwrap_or_default()).into_owned())
    }

    /// Everything up to the end, one after the other. Each must take at least an octet.
    pub(crate) fn list<T>(
        mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Refusal>,
    ) -> Result<Vec<T>, Refusal> {
        let mut list = Vec::new();
        while !self.is_empty() {
            let before = self.len();
            list.push(read(&mut self)?);
            if self.len() == before {
                return Err(self.short);
            }
        }
        Ok(list)
    }

    /// A reader of the next octets.
    pub(crate) fn part(&mut self, octets: usize, short: Refusal) -> Result<Reader<'a>, Refusal> {
        Ok(Reader::new(self.take(octets)?, short))
    }

    /// Refuses what is left.
    pub(crate) fn end(&self) -> Result<(), Refusal> {
        if self.is_empty() { Ok(()) } else { Err(self.short) }
    }
}

/// Writes to the end of octets.
pub(crate) trait Write {
    fn put(&mut self, octets: &[u8]);
    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }
    fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }
    fn zeros(&mut self, octets: usize);
    /// Text in a field of so many octets, the last of which stays zero.
    fn text(&mut self, text: &str, octets: usize) {
        let end = text.len().min(octets.saturating_sub(1));
        let text = text.as_bytes().get(..end).unwrap_or_default();
        self.put(text);
        self.zeros(octets - text.len());
    }
    /// Runs `write`, and puts the octets from here to the end into the 16-bit field `at` octets behind here, counted before the zeros
    /// that make them a multiple of 8 if `counts_padding` is false.
    fn sized(&mut self, at: usize, counts_padding: bool, write: impl FnOnce(&mut Self));
}

impl Write for Vec<u8> {
    fn put(&mut self, octets: &[u8]) {
        self.extend_from_slice(octets);
    }

    fn zeros(&mut self, octets: usize) {
        self.resize(self.len() + octets, 0);
    }

    fn sized(&mut self, at: usize, counts_padding: bool, write: impl FnOnce(&mut Self)) {
        let from = self.len();
        write(self);
        let written = self.len() - from;
        let padded = written.next_multiple_of(8);
        let told = if counts_padding { padded } else { written };
        self.resize(from + padded, 0);
        if let Some(field) = self.get_mut(from + at..from + at + 2) {
            field.copy_from_slice(&(told as u16).to_be_bytes());
        }
    }
}

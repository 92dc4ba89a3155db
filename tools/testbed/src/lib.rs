//! Networks of namespaces, the schemes that run on them, and what they measured.

//! Two namespaces with a link between them, and a transfer over it.

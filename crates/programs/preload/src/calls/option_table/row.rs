//! A row of the table.

use libc::c_int;

/// What becomes of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::calls) enum Treatment {
    /// The data plane carries it out.
    Carried,
    /// The kernel's half of the socket carries it out, or it is about nothing that such a socket
    /// does.
    Kernel,
    /// Taken and told; it asks for speed, or for something that accelerated packets have no place
    /// for.
    Told,
    /// A socket that is given it before it is ours stays the kernel's. Later it comes too late, as
    /// in Linux.
    Early,
    /// The socket is the kernel's from then on; a connection that is ours already cannot be, and
    /// the call fails with ENOPROTOOPT.
    Falls,
    /// The call fails, as on a kernel that was built without it.
    Refused,
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub(in crate::calls) struct Row {
    pub(in crate::calls) number: c_int,
    #[cfg(test)]
    pub(in crate::calls) name: &'static str,
    /// On a TCP socket.
    pub(in crate::calls) stream: Treatment,
    /// On a UDP socket.
    pub(in crate::calls) datagram: Treatment,
    /// In which way, or why not.
    #[cfg(test)]
    pub(in crate::calls) why: &'static str,
}

/// Rows of a table: `NUMBER NAME STREAM DATAGRAM "why";`.
macro_rules! rows {
    ($($number:literal $name:ident $stream:ident $datagram:ident $why:literal;)*) => {
        &[$(crate::calls::option_table::row::Row {
            number: $number,
            #[cfg(test)]
            name: stringify!($name),
            stream: crate::calls::option_table::row::Treatment::$stream,
            datagram: crate::calls::option_table::row::Treatment::$datagram,
            #[cfg(test)]
            why: $why,
        }),*]
    };
}
pub(super) use rows;

//! Packets of other hosts, by whatever address: those of containers with a macvlan interface over
//! ours, of a bridge that ours is a port of, or of anybody where the interface hears everything.
//!
//! Only what a wildcard covers is looked at: an address of this host is nobody else's. So the
//! packets of connections are not, which the kernel would reset in the moment in which a changed
//! link address is its own and not known here yet. The dispatcher looks at all.

use super::super::asm::Register::{R2, R6, R7, R10};
use super::super::asm::{Assembler, Label, Size};
use super::packet::{CTX_DATA, ETHERNET_BYTES, KEY, look, need};

/// Goes to `hit` if the packet's link address is in the map, else to `pass`. R6 is the context, R8
/// the end of the packet. Uses R0 to R5 and R7, and the key's room.
pub(super) fn leave(asm: &mut Assembler, stations_fd: i32, hit: Label, pass: Label) {
    asm.load(Size::Word, R7, R6, CTX_DATA);
    need(asm, ETHERNET_BYTES, pass);
    asm.load(Size::Word, R2, R7, 0);
    asm.store(Size::Word, R10, KEY, R2);
    asm.load(Size::Half, R2, R7, 4);
    asm.store(Size::Half, R10, KEY + 4, R2);
    look(asm, stations_fd, hit);
    asm.jump(pass);
}

//! The real datapath and the real TCP over modelled links, in virtual time.

#![forbid(unsafe_code)]

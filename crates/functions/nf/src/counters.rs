//! Counters of a function: a field for each, whose documentation is also the operator's help.

macro_rules! counters {
    ($(#[$about:meta])* $set:ident { $($(#[doc = $help:literal])+ $name:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set {
            $($(#[doc = $help])+ pub $name: u64,)+
        }

        impl $set {
            /// Hands each over: name, what it counts, value. The order is append-only.
            pub fn each(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
                $(each(stringify!($name), concat!($($help),+).trim_ascii(), self.$name);)+
            }
        }
    };
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "counters belong to functions, which are public")]
mod tests {
    counters! {
        /// Of this test.
        Two {
            /// The first one.
            first,
            /// The second one, which
            /// has a longer sentence.
            second,
        }
    }

    #[test]
    fn names_sentences_and_values_come_in_the_order_of_the_fields() {
        let mut seen = Vec::new();
        Two { first: 3, second: 4 }.each(&mut |name, help, value| seen.push((name, help, value)));
        let second = "The second one, which has a longer sentence.";
        assert_eq!(seen, [("first", "The first one.", 3), ("second", second, 4)]);
    }
}

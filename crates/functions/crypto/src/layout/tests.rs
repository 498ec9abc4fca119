//! The layout against the header, by a C program.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::process::Command;

use super::*;

/// Every number that we took from the header, under the expression that C has for it.
fn ours() -> Vec<(String, u64)> {
    let mut all = Vec::new();
    macro_rules! fields {
        ($ours:ty, $theirs:literal, $($field:ident = $c:literal),+ $(,)?) => {
            $(all.push((format!("offsetof({}, {})", $theirs, $c), offset_of!($ours, $field) as u64));)+
        };
    }
    fields!(
        Manager,
        "IMB_MGR",
        flags = "flags",
        features = "features",
        used_arch = "used_arch",
        errno = "imb_errno",
        get_next_job = "get_next_job",
        submit_job = "submit_job",
        flush_job = "flush_job",
        keyexp_128 = "keyexp_128",
        sha1_one_block = "sha1_one_block",
        sha256_one_block = "sha256_one_block",
        gcm128_enc = "gcm128_enc",
        gcm128_dec = "gcm128_dec",
        gcm128_pre = "gcm128_pre",
    );
    fields!(
        Job,
        "IMB_JOB",
        enc_keys = "enc_keys",
        dec_keys = "dec_keys",
        key_len = "key_len_in_bytes",
        src = "src",
        dst = "dst",
        cipher_start = "cipher_start_src_offset_in_bytes",
        cipher_len = "msg_len_to_cipher_in_bytes",
        hash_start = "hash_start_src_offset_in_bytes",
        hash_len = "msg_len_to_hash_in_bytes",
        iv = "iv",
        iv_len = "iv_len_in_bytes",
        tag = "auth_tag_output",
        tag_len = "auth_tag_output_len_in_bytes",
        ipad = "u.HMAC._hashed_auth_key_xor_ipad",
        opad = "u.HMAC._hashed_auth_key_xor_opad",
        status = "status",
        cipher_mode = "cipher_mode",
        direction = "cipher_direction",
        hash_alg = "hash_alg",
        chain_order = "chain_order",
        user_data = "user_data",
        user_data2 = "user_data2",
    );
    let numbers = [
        ("sizeof(struct gcm_key_data)", GCM_KEY_BYTES as u64),
        ("IMB_STATUS_COMPLETED", COMPLETED.into()),
        ("IMB_CIPHER_CBC", CIPHER_CBC.into()),
        ("IMB_DIR_ENCRYPT", ENCRYPT.into()),
        ("IMB_DIR_DECRYPT", DECRYPT.into()),
        ("IMB_AUTH_HMAC_SHA_1", HMAC_SHA1.into()),
        ("IMB_AUTH_HMAC_SHA_256", HMAC_SHA256.into()),
        ("IMB_ORDER_CIPHER_HASH", CIPHER_HASH.into()),
        ("IMB_ORDER_HASH_CIPHER", HASH_CIPHER.into()),
    ];
    all.extend(numbers.map(|(name, number)| (name.to_owned(), number)));
    all
}

#[test]
fn structures_are_those_of_the_header() {
    let mut source = String::from(
        "#include <intel-ipsec-mb.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n",
    );
    for (name, _) in ours() {
        writeln!(source, "printf(\"%llu\\n\", (unsigned long long)({name}));")
            .expect("a string grows");
    }
    // Ours may be larger, never smaller.
    let rooms = [("sizeof(struct gcm_context_data)", size_of::<GcmContext>() as u64)];
    for (name, _) in rooms {
        writeln!(source, "printf(\"%llu\\n\", (unsigned long long)({name}));")
            .expect("a string grows");
    }
    source.push_str("return 0; }\n");
    let folder = std::env::temp_dir().join(format!("calisto-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
    let (c, program) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&c, source).expect("the temporary folder can be written");
    let built = Command::new("cc").arg(&c).arg("-o").arg(&program).output();
    let built = built.expect("a C compiler is there: apt-get install gcc");
    let said = String::from_utf8_lossy(&built.stderr).into_owned();
    assert!(built.status.success(), "apt-get install libipsec-mb-dev:\n{said}");
    let printed = Command::new(&program).output().expect("it was built").stdout;
    std::fs::remove_dir_all(&folder).expect("it is ours");
    let printed = String::from_utf8(printed).expect("numbers");
    let mut theirs = printed.lines().map(|line| line.parse::<u64>().expect("a number"));
    for (name, number) in ours() {
        assert_eq!(theirs.next(), Some(number), "{name}");
    }
    for (name, room) in rooms {
        assert!(theirs.next().is_some_and(|needs| needs <= room), "{name}");
    }
}

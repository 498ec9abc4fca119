//! Users by their names.

/// The numeric id of a user, from /etc/passwd.
pub fn uid_of(name: &str) -> Option<u32> {
    parse_passwd(&std::fs::read_to_string("/etc/passwd").ok()?, name)
}

fn parse_passwd(passwd: &str, name: &str) -> Option<u32> {
    passwd.lines().find_map(|line| {
        // passwd(5): name:password:uid:gid:gecos:home:shell
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\ncalisto:x:991:990::/:/bin/false\nbad:x:no:1\n";
        assert_eq!(parse_passwd(passwd, "calisto"), Some(991));
        assert_eq!(parse_passwd(passwd, "cal"), None);
        assert_eq!(parse_passwd(passwd, "bad"), None);
    }
}

# serve PORT: the file "www/body" to everybody, a process each. fetch HOST PORT: prints what comes.
use strict;
use warnings;
use IO::Socket::INET;

my ($what, @where) = @ARGV;
if ($what eq "serve") {
    $SIG{CHLD} = "IGNORE";
    my $listener = IO::Socket::INET->new(LocalPort => $where[0], Listen => 5, ReuseAddr => 1)
        or die "no listener: $!";
    while (my $socket = $listener->accept) {
        next if fork;
        open my $file, "<", "www/body" or die "no body: $!";
        print $socket $_ while <$file>;
        exit;
    }
} else {
    my $socket = IO::Socket::INET->new(PeerAddr => $where[0], PeerPort => $where[1])
        or die "no connection: $!";
    print while <$socket>;
}

# Files of the folder "www", for puma.
run ->(env) { [200, { "Content-Type" => "text/plain" }, [File.binread("www#{env["PATH_INFO"]}")]] }

// serve PORT: files of the folder "www". fetch URL: prints what is there.
const http = require("node:http");
const fs = require("node:fs");

const [, , what, where] = process.argv;
if (what === "serve") {
  const answer = (request, response) => fs.createReadStream(`www${request.url}`).pipe(response);
  http.createServer(answer).listen(Number(where), "0.0.0.0");
} else {
  http.get(where, (response) => response.pipe(process.stdout));
}

// An HTTP server that needs `work` milliseconds for an answer and finishes what it began. Usage: server.js PORT WORK
const http = require('http');
const [port, work] = process.argv.slice(2).map(Number);

const server = http.createServer((request, response) => {
  if (request.url === '/crash') process.exit(7);
  if (request.url === '/slow') console.log('busy');
  setTimeout(() => response.end('ok'), work);
});
server.listen(port, '127.0.0.1', () => console.log('ready'));

process.on('SIGTERM', () => {
  console.log('got SIGTERM');
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});

#!/bin/sh
# nginx as somebody's own image has it: in the foreground, serving one file slowly. Usage: nginx.sh PORT
mkdir -p /tmp/www
head -c 400000 /dev/zero > /tmp/www/file
cat > /tmp/nginx.conf <<END
daemon off;
error_log stderr notice;
pid /tmp/nginx.pid;
events {}
http {
    access_log off;
    server {
        listen 127.0.0.1:$1;
        root /tmp/www;
        limit_rate 100k;
    }
}
END
exec nginx -c /tmp/nginx.conf

# Runs one Docker Engine for as long as standard input stays open.
#
# The test process holds the other end of that pipe. However it ends (a panic, exit, SIGKILL), the pipe closes,
# and everything started here is taken down again. PR_SET_PDEATHSIG would not do: it follows the thread that
# spawned us, and test threads come and go.
#
# Arguments: the cache (images live there between runs), a private directory, the init binary.
set -u
cache=$1 private=$2 init=$3
export DOCKER_HOST="unix://$private/docker.sock"

unmount_below() {
    awk -v top="$1/" 'index($2, top) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r -n 1 umount -l
}

take_down() {
    docker ps -aq 2>/dev/null | xargs -r docker rm -fv >/dev/null 2>&1
    kill "$engine" 2>/dev/null
    for _ in $(seq 100); do
        kill -0 "$engine" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$engine" 2>/dev/null
    containerd=$(cat "$private/containerd/containerd.pid" 2>/dev/null) && kill -KILL "$containerd" 2>/dev/null
    unmount_below "$private"
    unmount_below "$cache"
    rm -rf "$private"
}

# One engine at a time per cache: its images are a database with a single writer.
exec 9>"$cache/lock"
flock 9

# What a killed run may have left half made.
unmount_below "$cache"
rm -rf --one-file-system "$cache"/.tmp*

dockerd --data-root "$cache/docker" --exec-root "$private" --pidfile "$private/docker.pid" \
    --host "$DOCKER_HOST" --bridge=none --iptables=false --ip6tables=false --init-path "$init" \
    </dev/null >"$cache/dockerd.log" 2>&1 9>&- &
engine=$!
trap take_down EXIT
trap '' HUP INT TERM

until docker version >/dev/null 2>&1; do
    kill -0 "$engine" 2>/dev/null || exit 1
    sleep 0.1
done
docker ps -aq | xargs -r docker rm -fv >/dev/null 2>&1
docker image prune -f >/dev/null
echo ready
exec >&-
cat >/dev/null

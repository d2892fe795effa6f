#!/bin/sh
# Optional: lets oombot stop a stray process that holds a GPU's memory on this node, and drop shared memory that nobody holds any more. An account
# and a key of its own, apart from the reading ones.
# Run as root; safe to run again. Usage: install-stop.sh 'ssh-ed25519 AAAA... oombot-stop'
set -eu
key=${1:?usage: install-stop.sh PUBLIC_KEY}
here=$(cd "$(dirname "$0")" && pwd)

id oombot-stop >/dev/null 2>&1 || useradd --system --create-home --shell /bin/sh oombot-stop
install -o root -g root -m 0755 -D "$here/oombot-stop" /usr/local/libexec/oombot-stop
install -o root -g root -m 0755 -D "$here/oombot-shm" /usr/local/libexec/oombot-shm
install -o root -g root -m 0440 -D "$here/sudoers-shm" /etc/sudoers.d/oombot-shm
install -o root -g root -m 0440 -D "$here/sudoers-stop" /etc/sudoers.d/oombot-stop
visudo -c -q
install -o root -g root -m 0644 -D "$here/sshd_oombot-stop.conf" /etc/ssh/sshd_config.d/oombot-stop.conf
home=$(getent passwd oombot-stop | cut -d: -f6)
install -d -o oombot-stop -g oombot-stop -m 0700 "$home/.ssh"
printf 'restrict,command="sudo -n /usr/local/libexec/oombot-stop" %s\n' "$key" >"$home/.ssh/authorized_keys"
chown oombot-stop:oombot-stop "$home/.ssh/authorized_keys"
chmod 0600 "$home/.ssh/authorized_keys"
sshd -t
echo "Done. Reload sshd, and give the bot ssh.stop_user and ssh.stop_key."

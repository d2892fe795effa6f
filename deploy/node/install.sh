#!/bin/sh
# Prepares one node for oombot: an account without a password that can start one script. Run as root; safe to run again.
# Usage: install.sh 'ssh-ed25519 AAAA... oombot'
set -eu
key=${1:?usage: install.sh PUBLIC_KEY}
here=$(cd "$(dirname "$0")" && pwd)

id oombot >/dev/null 2>&1 || useradd --system --create-home --shell /bin/sh oombot
getent group systemd-journal >/dev/null && usermod -aG systemd-journal oombot
install -o root -g root -m 0755 -D "$here/oombot-probe" /usr/local/libexec/oombot-probe
install -o root -g root -m 0644 -D "$here/sshd_oombot.conf" /etc/ssh/sshd_config.d/oombot.conf
home=$(getent passwd oombot | cut -d: -f6)
install -d -o oombot -g oombot -m 0700 "$home/.ssh"
printf 'restrict,command="/usr/local/libexec/oombot-probe" %s\n' "$key" >"$home/.ssh/authorized_keys"
chown oombot:oombot "$home/.ssh/authorized_keys"
chmod 0600 "$home/.ssh/authorized_keys"
sshd -t
echo "Done. Reload sshd, then add this node to oombot's known hosts file:"
for address in $(hostname -I); do
    echo "$address $(cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub)"
done

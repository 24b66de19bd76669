# Runs the scripts that arrive at the guest's serial port, one at a time: a line of base64 each, and for each a line
# "STATUS OUTPUT", the output in base64 too. It ends with the guest.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/run LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
cd /run
exec 3<>"$(echo /dev/vport*p1)"
while IFS= read -r -u 3 line; do
  base64 -d <<<"$line" >/run/script
  bash /run/script >/run/output 2>&1 </dev/null 3>&-
  printf '%d %s\n' $? "$(base64 -w0 /run/output)" >&3
done

#!/bin/busybox sh
# The first program of a guest: its root is that of the machine, read-only over 9p, below an overlay in memory.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done </modules/order
mount -t tmpfs scratch /scratch
mkdir /scratch/upper /scratch/work
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 machine /machine &&
  mount -t overlay -o lowerdir=/machine,upperdir=/scratch/upper,workdir=/scratch/work root /root || exec reboot -f
for folder in proc sys dev; do mount --move "/$folder" "/root/$folder"; done
mount -t tmpfs run /root/run
cp /serve.sh /root/run/serve.sh
exec chroot /root /bin/bash /run/serve.sh

package embedded

import (
	"fmt"
	"syscall"
)

// volatile are the magic numbers, from linux/magic.h, of file systems in memory
// or over a network.
var volatile = map[uint32]string{
	0x01021994: "tmpfs",
	0x858458f6: "ramfs",
	0x00006969: "NFS",
	0x0000517b: "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x01021997: "9p",
	0x5346414f: "AFS",
	0x00c36400: "Ceph",
}

func checkDisk(path string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return fmt.Errorf("open the journal: statfs %s: %w", path, err)
	}
	if kind, bad := volatile[uint32(st.Type)]; bad {
		return refuseDisk(path, kind)
	}
	return nil
}

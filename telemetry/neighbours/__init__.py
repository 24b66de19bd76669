"""What devices hear of their neighbours by LLDP: what daemons store, what agents report, what a collector keeps."""

"""SONiC's configuration of what a plan assumes of each switch: config_db tables, and the comparison with them."""

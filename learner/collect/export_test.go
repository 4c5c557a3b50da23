package collect

// SetStateSize sets the length of the state of the task's environment.
func (c *Config) SetStateSize(size int) { c.stateSize = size }

// SetAudit sets the share of the tickets that are replayed; 0 means none.
func (c *Config) SetAudit(share float64) {
	if c.audit = share; share == 0 {
		c.audit = -1
	}
}

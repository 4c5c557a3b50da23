package config

// ForeignAnswers returns the answers to the flags of other programs.
func ForeignAnswers() (all string) {
	for _, answer := range foreign() {
		all += answer + " "
	}
	return all
}

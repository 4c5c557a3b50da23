package config

// ForeignAnswers returns the answers to the flags of other programs.
func ForeignAnswers() (all string) {
	for _, f := range foreign {
		all += f.answer + " "
	}
	return all
}

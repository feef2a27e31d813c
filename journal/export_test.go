package journal

// SessionsFrom is Sessions with a first stretch of any length.
var SessionsFrom = sessions

#!/bin/sh
# Prints the name of a target's image: charts/images/name.sh REGISTRY TAG TARGET. The chart uses the same names.
set -eu
case $3 in
*-cpu) echo "$1/${3%-cpu}:$2-cpu" ;;
*) echo "$1/$3:$2" ;;
esac

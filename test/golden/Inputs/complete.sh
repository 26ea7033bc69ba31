#!/usr/bin/env bash
# complete.sh SCRIPT WORD...: what bash would complete the last word to, by a completion script of heterplan.
source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_heterplan
printf '%s\n' "${COMPREPLY[@]}"

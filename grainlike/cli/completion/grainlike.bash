# Completion of grainlike for bash. Load it with: eval "$(grainlike completion bash)"
# Commands and options are in here; what a head knows is asked of it, for a second at most.
# shellcheck shell=bash disable=SC2034,SC2154

# What is completed where.

# Take the words before the cursor: sets `at` (the command), `kind` (of a value that is due), `place`, `after`, `asked`.
_grainlike_walk() {
    local word flag=''
    at='' kind='' place=1 after='' asked=()
    for word in "$@"; do
        if [[ $after ]]; then
            place=$((place + 1))
        elif [[ $kind ]]; then
            [[ $flag == --head ]] && asked+=(--head "$word")
            kind=''
        elif [[ $word == -- ]]; then
            after=1
        elif [[ $word == --*=* ]]; then
            [[ $word == --head=* ]] && asked+=(--head "${word#*=}")
        elif [[ $word == -?* ]]; then
            flag=$word
            [[ $word == --insecure ]] && asked+=(--insecure)
            _grainlike_kind "$at" "$word"
        elif _grainlike_words "$at" | grep -q "^$word:" 2>/dev/null; then
            at=${at:+$at }$word
        else
            place=$((place + 1))
        fi
    done
}

# Split what was typed up to the cursor as bash does: sets `typed`, `cur` (without its quotes) and `quote`.
_grainlike_split() {
    local text=${COMP_LINE:0:COMP_POINT} char word='' inside='' i
    typed=() quote=''
    for ((i = 0; i < ${#text}; i++)); do
        char=${text:i:1}
        if [[ $quote ]]; then
            if [[ $char == "$quote" ]]; then quote=''; else word+=$char; fi
        elif [[ $char == \' || $char == \" ]]; then
            quote=$char inside=1
        elif [[ $char == \\ ]]; then
            i=$((i + 1)) word+=${text:i:1} inside=1
        elif [[ $char == [[:space:]] ]]; then
            [[ $inside ]] && typed+=("$word")
            word='' inside=''
        else
            word+=$char inside=1
        fi
    done
    cur=$word
}

_grainlike() {
    local at kind place after asked typed cur quote before='' shown IFS=$'\n'
    _grainlike_split
    _grainlike_walk "${typed[@]:1}"
    COMPREPLY=()
    if [[ ! $kind && ! $after && $cur == --*=* ]]; then
        _grainlike_kind "$at" "${cur%%=*}"
        before=${cur%%=*}=
        cur=${cur#*=}
    elif [[ ! $kind && ! $after && $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$(_grainlike_options "$at" | sed 's/:.*//')" -- "$cur"))
        return
    elif [[ ! $kind ]]; then
        shown=$(_grainlike_words "$at" | sed 's/:.*//')
        if [[ $shown && ! $after ]]; then
            COMPREPLY=($(compgen -W "$shown" -- "$cur"))
            return
        fi
        _grainlike_kind "$at" "$place"
    fi
    if [[ $kind == resource && $cur == *" "* ]]; then
        before+="${cur% *} "
        cur=${cur##* }
    fi
    case $kind in
    '' | nothing) return ;;
    command)
        if [[ ! $after ]]; then return; fi
        if ((place == 1)); then COMPREPLY=($(compgen -c -- "$cur")); else compopt -o default; fi
        return
        ;;
    file) shown=$(compgen -f -- "$cur") ;;
    directory) shown=$(compgen -d -- "$cur") ;;
    =*) shown=$(compgen -W "$(printf '%s' "${kind#=}" | tr ' ' '\n')" -- "$cur") ;;
    *)
        shown=$("${COMP_WORDS[0]}" completion values "$kind" "${asked[@]}" 2>/dev/null </dev/null | cut -f 1)
        shown=$(_grainlike_matching "$cur" "$shown")
        [[ $kind == head ]] && shown+=$'\n'$(compgen -f -- "$cur")
        [[ $kind == journal ]] && shown+=$'\n'$(compgen -d -- "$cur")
        ;;
    esac
    [[ $kind == file || $kind == directory || $kind == head || $kind == journal ]] && compopt -o filenames
    [[ $kind == resource ]] && compopt -o nospace
    _grainlike_reply "$before" "$shown"
}

# Print the lines of $2 that begin with $1.
_grainlike_matching() {
    local line
    while read -r line; do
        [[ $line && $line == "$1"* ]] && printf '%s\n' "$line"
    done <<<"$2"
}

# Give bash what it is to put in the place of what it takes for the word: that begins behind the last `=` or `:`.
_grainlike_reply() {
    local line whole cut=''
    if [[ ! $quote ]]; then
        whole=$1$cur
        cut=${whole%"${whole##*[=:]}"}
    fi
    while read -r line; do
        [[ $line ]] || continue
        whole=$1$line
        COMPREPLY+=("${whole#"$cut"}")
    done <<<"$2"
}

complete -F _grainlike grainlike

#compdef grainlike
# Completion of grainlike for zsh. Load it after compinit with: eval "$(grainlike completion zsh)"
# Commands and options are in here; what a head knows is asked of it, for a second at most.

# What is completed where.

# Take the words before the cursor: sets `at` (the command), `kind` (of a value that is due), `place`, `after`, `asked`.
_grainlike_walk() {
    local word flag=''
    at='' kind='' place=1 after='' asked=()
    for word in "$@"; do
        if [[ -n $after ]]; then
            place=$((place + 1))
        elif [[ -n $kind ]]; then
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
        elif [[ -n ${(M)${(f)"$(_grainlike_words "$at")"}:#${(b)word}:*} ]]; then
            at=${at:+$at }$word
        else
            place=$((place + 1))
        fi
    done
}

_grainlike() {
    local at kind place after
    local -a asked shown
    _grainlike_walk "${(@Q)words[2,CURRENT-1]}"
    if [[ -z $kind && -z $after && $PREFIX == --*=* ]]; then
        _grainlike_kind "$at" "${PREFIX%%=*}"
        compset -P '*='
    elif [[ -z $kind && -z $after && $PREFIX == -* ]]; then
        shown=("${(@f)$(_grainlike_options "$at")}")
        _describe option shown
        return
    elif [[ -z $kind ]]; then
        shown=("${(@f)$(_grainlike_words "$at")}")
        shown=(${shown:#})
        if [[ -n $shown && -z $after ]]; then
            _describe command shown
            return
        fi
        _grainlike_kind "$at" "$place"
    fi
    case $kind in
    '' | nothing) return 1 ;;
    command)
        [[ -n $after ]] || return 1
        words=("${(@)words[CURRENT-place+1,-1]}") CURRENT=$place
        _normal
        ;;
    file) _files ;;
    directory) _files -/ ;;
    \=*) compadd -- ${=kind#=} ;;
    *)
        shown=(${(f)"$("${(Q)words[1]}" completion values "$kind" $asked 2>/dev/null </dev/null)"})
        shown=(${${shown//:/\\:}//$'\t'/:})
        if [[ $kind == resource ]]; then
            compset -P '*[[:blank:]]'
            _describe resource shown -S ''
        elif [[ -n $shown ]]; then
            _describe $kind shown
        fi
        [[ $kind == head ]] && _files
        [[ $kind == journal ]] && _files -/
        ;;
    esac
}

if [[ $funcstack[1] == _grainlike ]]; then
    _grainlike "$@"
else
    compdef _grainlike grainlike
fi

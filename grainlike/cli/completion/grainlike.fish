# Completion of grainlike for fish. Load it with: grainlike completion fish | source
# Commands and options are in here; what a head knows is asked of it, for a second at most.

# What is completed where.

function __grainlike_complete
    set -l typed (commandline -opc)
    set -l cur (commandline -ct | string replace -r '^["\']' '')
    set -l program $typed[1]
    set -l at ''
    set -l kind ''
    set -l flag ''
    set -l place 1
    set -l after
    set -l asked
    set -l before ''
    # The words before the cursor.
    for word in $typed[2..-1]
        if set -q after[1]
            set place (math $place + 1)
        else if test -n "$kind"
            test "$flag" = --head; and set -a asked --head $word
            set kind ''
        else if test "$word" = --
            set after 1
        else if string match -q -- '--*=*' $word
            string match -q -- '--head=*' $word; and set -a asked --head (string replace -- --head= '' $word)
        else if string match -q -- '-?*' $word
            set flag $word
            test "$word" = --insecure; and set -a asked --insecure
            set kind (__grainlike_kind "$at" $word)
        else if string match -q -- "$word"\t'*' (__grainlike_words "$at")
            set at (string trim -- "$at $word")
        else
            set place (math $place + 1)
        end
    end
    if test -z "$kind"; and not set -q after[1]
        if string match -q -- '--*=*' $cur
            set -l parts (string split -m 1 = -- $cur)
            set kind (__grainlike_kind "$at" $parts[1])
            set before $parts[1]=
            set cur $parts[2]
        else if string match -q -- '-*' $cur
            __grainlike_options "$at"
            return
        end
    end
    if test -z "$kind"
        if not set -q after[1]; and test -n "$(__grainlike_words "$at")"
            __grainlike_words "$at"
            return
        end
        set kind (__grainlike_kind "$at" $place)
    end
    if test "$kind" = resource; and string match -q '* *' -- $cur
        set before $before(string replace -r '[^ ]*$' '' -- $cur)
    end
    switch "$kind"
        case '' nothing
            return
        case command
            set -q after[1]; or return
            if test $place = 1
                __fish_complete_command
            else
                __fish_complete_path $cur
            end
        case file
            __grainlike_behind "$before" (__fish_complete_path $cur)
        case directory
            __grainlike_behind "$before" (__fish_complete_directories $cur '')
        case '=*'
            __grainlike_behind "$before" (string split ' ' -- (string sub -s 2 -- $kind))
        case '*'
            __grainlike_behind "$before" ($program completion values $kind $asked 2>/dev/null </dev/null)
            test $kind = head; and __grainlike_behind "$before" (__fish_complete_path $cur)
            test $kind = journal; and __grainlike_behind "$before" (__fish_complete_directories $cur '')
    end
end

# Print the values $argv[2..-1], each behind what is typed already of the word.
function __grainlike_behind
    for value in $argv[2..-1]
        printf '%s\n' $argv[1]$value
    end
end

complete -c grainlike -f -a '(__grainlike_complete)'

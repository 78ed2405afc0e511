#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/terminal/console.h"

namespace talon {
namespace {

// Files are completed where there are no words: of values and of what stands alone.

constexpr const char* kBashBegin =
    R"sh(# Completion of talon's command line: talon completion bash
_talon() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command=talon commands= options= valued= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${COMP_WORDS[i]}" in
)sh";
/// The same in zsh.
constexpr const char* kCasesBegin = R"sh(    esac
  done
  case $command in
)sh";
constexpr const char* kBashEnd = R"sh(  esac
  [[ $word == -* ]] && commands=$options
  [[ $valued == *" $before "* ]] && commands=
  COMPREPLY=($(compgen -W "$commands" -- "$word"))
}
complete -o default -F _talon talon
)sh";

/// `commands` and `options` are zsh's own.
constexpr const char* kZshBegin =
    R"sh(#compdef talon
# Completion of talon's command line: talon completion zsh
_talon() {
  local command=talon before=${words[CURRENT-1]} i
  local -a below flags valued
  for ((i = 2; i < CURRENT; i++)); do
    case "$command ${words[i]}" in
)sh";
/// A file of that name in $fpath is run as the function when it is first wanted.
constexpr const char* kZshEnd = R"sh(  esac
  [[ ${words[CURRENT]} == -* ]] && below=($flags)
  ((${valued[(Ie)$before]})) && below=()
  (($#below)) && compadd -- $below || _files
}
if [[ ${funcstack[1]} == _talon ]]; then
  _talon "$@"
else
  compdef _talon talon
fi
)sh";

constexpr const char* kFishBegin =
    R"sh(# Completion of talon's command line: talon completion fish
function __talon_words
    set -l word (commandline -ct)
    set -l words (commandline -opc)
    set -l before $words[-1]
    set -e words[1]
    set -l command talon
    set -l commands
    set -l options
    set -l valued
    for i in $words
        switch "$command $i"
)sh";
constexpr const char* kFishMiddle = R"sh(                set command "$command $i"
        end
    end
    switch $command
)sh";
constexpr const char* kFishEnd = R"sh(    end
    if string match -q -- '-*' "$word"
        set commands $options
    end
    if contains -- $before $valued
        set commands
    end
    set -q commands[1]
    and string match -- "$word*" $commands
    or __fish_complete_path "$word"
end
complete -c talon -f -a '(__talon_words)'
)sh";

/// A command, as the words that lead to it, and what may follow them.
struct Completed {
  std::string words;  // talon bench spec
  std::vector<std::string> commands, options;
  std::vector<std::string> valued;  // of the options those that a value follows
};

/// Adds `app`, whose name follows the words `above`, and the commands below it.
void collect_commands(const CLI::App& app, const std::string& above, std::vector<Completed>& all) {
  Completed completed;
  completed.words = above + app.get_name();
  for (const CLI::Option* option : app.get_options()) {
    std::vector<std::string> names;
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    std::vector<std::string>& options = completed.options;
    options.insert(options.end(), names.begin(), names.end());
    if (option->get_items_expected_min() < 1) continue;
    completed.valued.insert(completed.valued.end(), names.begin(), names.end());
  }
  const std::vector<const CLI::App*> below = app.get_subcommands({});
  for (const CLI::App* command : below) completed.commands.push_back(command->get_name());
  all.push_back(completed);
  for (const CLI::App* command : below) collect_commands(*command, completed.words + " ", all);
}

/// The words that lead to each command but the program itself, which is the first.
std::string paths(const std::vector<Completed>& all, std::string_view between) {
  std::vector<std::string> quoted;
  for (const Completed& one : std::span(all).subspan(1)) quoted.push_back("'" + one.words + "'");
  return fmt::format("{}", fmt::join(quoted, between));
}

std::string bash_script(const std::vector<Completed>& all) {
  std::string script = kBashBegin;
  script += fmt::format("      {}) command+=\" ${{COMP_WORDS[i]}}\" ;;\n", paths(all, " | "));
  script += kCasesBegin;
  for (const Completed& one : all) {
    script += fmt::format("    '{}') commands='{}' options='{}' valued=' {} ' ;;\n", one.words,
                          fmt::join(one.commands, " "), fmt::join(one.options, " "),
                          fmt::join(one.valued, " "));
  }
  return script + kBashEnd;
}

std::string zsh_script(const std::vector<Completed>& all) {
  std::string script = kZshBegin;
  script += fmt::format("      {}) command+=\" ${{words[i]}}\" ;;\n", paths(all, " | "));
  script += kCasesBegin;
  for (const Completed& one : all) {
    script += fmt::format("    '{}') below=({}) flags=({}) valued=({}) ;;\n", one.words,
                          fmt::join(one.commands, " "), fmt::join(one.options, " "),
                          fmt::join(one.valued, " "));
  }
  return script + kZshEnd;
}

std::string fish_script(const std::vector<Completed>& all) {
  std::string script = kFishBegin;
  script += fmt::format("            case {}\n", paths(all, " "));
  script += kFishMiddle;
  for (const Completed& one : all) {
    script += fmt::format("        case '{}'\n", one.words);
    for (const auto& [name, words] :
         {std::pair{"commands", &one.commands}, std::pair{"options", &one.options},
          std::pair{"valued", &one.valued}}) {
      if (!words->empty())
        script += fmt::format("            set {} {}\n", name, fmt::join(*words, " "));
    }
  }
  return script + kFishEnd;
}

struct Shell {
  std::string_view name;
  std::string (*script)(const std::vector<Completed>& all);
};
constexpr Shell kShells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

class Completion : public Command {
 public:
  explicit Completion(CLI::App& parent)
      : Command(parent.add_subcommand(
            "completion", "print a script with which a shell completes commands and options")),
        parent_(parent) {
    app_->add_option("shell", shell_, "bash, zsh or fish")->type_name("SHELL")->required();
  }

  int run() override {
    const auto* const shell = std::ranges::find(kShells, shell_, &Shell::name);
    if (shell == std::end(kShells)) {
      fail_choice("completion: shell", {"bash", "zsh", "fish"}, shell_);
    }
    std::vector<Completed> all;
    collect_commands(parent_, "", all);
    write_output(shell->script(all));
    return kExitDone;
  }

 private:
  CLI::App& parent_;
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completion(CLI::App& parent) {
  return std::make_unique<Completion>(parent);
}

}  // namespace talon

#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "cli/options/flags.h"

namespace talon {

/// Takes the place of a flag with one value: `name` A,B,... fills `values` with parse(word) of each
/// word, each once. usual: as help shows it.
template <typename Value, typename Parse>
void make_list_flag(CLI::App& app, const std::string& name, std::vector<Value>& values,
                    const std::string& help, const std::string& type, const std::string& usual,
                    Parse parse) {
  app.remove_option(app.get_option(name));
  app.add_option_function<std::string>(name,
                                       [&values, parse, name](const std::string& text) {
                                         values.clear();
                                         for (const auto& word : split_list(name, text)) {
                                           const Value value = parse(word);
                                           if (std::ranges::find(values, value) != values.end())
                                             fail_twice(name, word);
                                           values.push_back(value);
                                         }
                                       })
      ->description(help)
      ->group("Sampling")
      ->type_name(type)
      ->default_str(usual);
}

/// `--temperature 0,0.7,1`.
inline void make_temperature_list(CLI::App& app, std::vector<double>& temperatures) {
  make_list_flag(app, "--temperature", temperatures, "one or more; 0 takes the most probable token",
                 "T,T,...", "0",
                 [](const std::string& word) { return parse_real("--temperature", word, 0, 100); });
}

}  // namespace talon

// What every test makes of JSON's templates, compiled once: json_templates.cc has it.
#ifndef AOT_TESTS_JSON_TEMPLATES_H_
#define AOT_TESTS_JSON_TEMPLATES_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// The argument is `extern`, or nothing where they are compiled.
#define AOT_TEST_TEMPLATES(kind)                                                                \
  kind template class nlohmann::basic_json<>;                                                   \
  kind template class nlohmann::detail::iter_impl<const nlohmann::json>;                        \
  kind template class nlohmann::detail::json_ref<nlohmann::json>;                               \
  kind template class nlohmann::detail::serializer<nlohmann::json>;                             \
  kind template class nlohmann::detail::output_stream_adapter<char>;                            \
  kind template class nlohmann::detail::lexer<nlohmann::json, aot_test::Letters>;               \
  kind template class nlohmann::detail::parser<nlohmann::json, aot_test::Letters>;              \
  kind template class nlohmann::detail::json_sax_dom_parser<nlohmann::json, aot_test::Letters>; \
  kind template class nlohmann::detail::json_sax_dom_callback_parser<nlohmann::json,            \
                                                                     aot_test::Letters>;        \
  kind template class std::map<std::string, nlohmann::json, std::less<>>;                       \
  kind template class std::vector<nlohmann::json>;

namespace aot_test {

// What a text is parsed from.
using Letters = nlohmann::detail::iterator_input_adapter<std::string::const_iterator>;

}  // namespace aot_test

AOT_TEST_TEMPLATES(extern)

#endif  // AOT_TESTS_JSON_TEMPLATES_H_

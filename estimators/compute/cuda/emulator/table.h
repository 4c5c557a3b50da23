// KERNEL(name) registers a kernel. Its parameters are found by the compiler, which refuses what the convention
// (package cuda's documentation) does not allow: a launch copies eight bytes a parameter.
#pragma once

#include "emulator.h"

#include <type_traits>
#include <utility>

template <class T>
constexpr bool allowed = std::is_same_v<T, long long> || std::is_same_v<T, double> || std::is_same_v<T, double *> ||
                         std::is_same_v<T, const double *> || std::is_same_v<T, const int *>;

template <auto function, class... P, std::size_t... I>
void call_kernel(void (*)(P...), void **parameters, std::index_sequence<I...>) {
    function(*static_cast<P *>(parameters[I])...);
}

template <auto function, class... P> kernel make_kernel(const char *name, void (*f)(P...)) {
    static_assert((allowed<P> && ...), "parameters are double *, const double *, const int *, long long or double");
    return {name, sizeof...(P), {std::is_pointer_v<P>...}, [](void **parameters) {
                call_kernel<function>(decltype(function)(nullptr), parameters, std::index_sequence_for<P...>());
            }};
}

#define KERNEL(name) static const bool added_##name = (add_kernel(make_kernel<name>(#name, name)), true);

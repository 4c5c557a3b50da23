function e(t,n){return t.textContent=`${n.run} cannot be watched yet.`,()=>t.replaceChildren()}export{e as mount};
